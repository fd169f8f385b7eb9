"""A network, its parameters and its optimizer as one pytree."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax.errors import ScopeParamShapeError
from jaxtyping import Array, Int, PyTree

from jaxagents.core.pickling import PicklableNode, nonpytree_field
from jaxagents.networks.initialisation import name_of_network, noting_inputs, shapes_of
from jaxagents.networks.wrappers import OBSERVED


class TrainState(PicklableNode):
    """A network, its parameters and its optimizer in one callable pytree.

    ```python
    state = TrainState.create(network, params, tx=optax.adam(3e-4))
    y = state(x)
    y = state(x, params=other_params)
    state = state.apply_gradients(grads=grads)
    ```

    It can be pickled and copied, including the network and the optimizer.

    Attributes:
        step: Number of gradient steps taken.
        params: Parameters of the network.
        opt_state: State of the optimizer; `None` without one.
        extra_variables: Other collections of variables, such as batch statistics.
        model_def: The network (static).
        tx: The optimizer (static); `None` for a network that is not trained.
    """

    step: Int[Array, ""]
    params: PyTree
    opt_state: PyTree
    extra_variables: dict[str, PyTree]
    model_def: nn.Module = nonpytree_field()
    tx: optax.GradientTransformation | None = nonpytree_field(default=None)

    @classmethod
    def create(
        cls,
        model_def: nn.Module,
        params: PyTree,
        tx: optax.GradientTransformation | None = None,
        extra_variables: dict[str, PyTree] | None = None,
    ) -> "TrainState":
        """Creates a state with a fresh optimizer.

        The arrays are copied, so that donating the state does not affect other states created from
        them.

        Args:
            model_def: The network.
            params: Parameters of the network.
            tx: Optax optimizer, to train the network.
            extra_variables: Other collections of variables.

        Returns:
            The state.

        Raises:
            ValueError: `extra_variables` contains parameters.
        """
        if "params" in (extra_variables or {}):
            raise ValueError(
                "extra_variables has a collection 'params', which would replace the "
                "parameters: pass all variables to TrainState.from_variables, or leave it out."
            )
        opt_state = None if tx is None else tx.init(params)
        copies = jax.tree.map(jnp.copy, (params, opt_state, extra_variables))
        params, opt_state, extra_variables = copies
        return cls(
            step=jnp.zeros((), jnp.int32),
            params=params,
            opt_state=opt_state,
            extra_variables=extra_variables or {},
            model_def=model_def,
            tx=tx,
        )

    @classmethod
    def from_variables(
        cls,
        model_def: nn.Module,
        variables: Mapping[str, PyTree],
        tx: optax.GradientTransformation | None = None,
    ) -> "TrainState":
        """Creates a state from the output of `model_def.init`.

        Args:
            model_def: The network.
            variables: Collections of variables, including the parameters.
            tx: Optax optimizer, to train the network.

        Returns:
            The state.
        """
        extra_variables = dict(variables)
        params = extra_variables.pop("params", {})
        return cls.create(model_def, params, tx, extra_variables)

    def __call__(
        self,
        *args: Any,
        params: PyTree = None,
        extra_variables: dict[str, PyTree] | None = None,
        method: str | Callable | None = None,
        **kwargs: Any,
    ) -> Any:
        """Applies the network.

        Args:
            *args: Arguments of the network.
            params: Parameters to use instead of the state's own.
            extra_variables: Other collections of variables to use instead of the state's own.
            method: Method of the network to call, by name or as a function; `None` for `__call__`.
            **kwargs: Keyword arguments of the network and of `flax.linen.Module.apply`. With
                `mutable=["batch_stats"]`, the output comes with the updated collections; store them with
                `state.replace(extra_variables=...)`.

        Returns:
            The network's output. Errors in the network get a note with its input shapes.

        Raises:
            TypeError: An input is a list of numbers.
            ValueError: The parameters have the wrong shapes for these inputs.
        """
        params = self.params if params is None else params
        extra_variables = self.extra_variables if extra_variables is None else extra_variables
        variables = {"params": params, **extra_variables}
        try:
            with noting_inputs(self.model_def, args):
                return self.model_def.apply(variables, *args, method=method, **kwargs)
        except ScopeParamShapeError as error:
            raise ValueError(
                f"{name_of_network(self.model_def)} was given inputs of shape "
                f"{shapes_of(args)}, which do not fit its parameters: {error}"
            ) from error
        except Exception as error:
            if any(map(_is_list_of_numbers, args)):
                name = name_of_network(self.model_def)
                raise TypeError(
                    f"{name} was given a list of numbers: pass an array, np.array(...)."
                ) from error
            raise

    def part(self, name: str) -> "TrainState":
        """Extracts a submodule of the network, without an optimizer.

        Args:
            name: Name of the network's field that holds the submodule.

        Returns:
            The state of the submodule.
        """
        extra = {
            kind: of_parts[name]
            for kind, of_parts in self.extra_variables.items()
            if name in of_parts
        }
        network, params = getattr(self.model_def, name), self.params.get(name, {})
        return TrainState(self.step, params, None, extra, network)

    @property
    def apply_fn(self) -> Callable[..., Any]:
        """The network as a function of its parameters and inputs: `apply_fn(params, *inputs)`."""
        return lambda params, *args, **kwargs: self(*args, params=params, **kwargs)

    def apply_gradients(self, *, grads: PyTree, **extra_args: Any) -> "TrainState":
        """Takes one gradient step.

        Args:
            grads: Gradients, structured like `params`.
            **extra_args: Additional arguments of the optimizer, such as the loss as `value` for
                `optax.contrib.reduce_on_plateau`.

        Returns:
            The state after the step.

        Raises:
            ValueError: The state has no optimizer.
        """
        if self.tx is None:
            raise ValueError("This TrainState has no optimizer: create it with `tx=` to train it.")
        tx = with_extra_args(self.tx)
        updates, opt_state = tx.update(grads, self.opt_state, self.params, **extra_args)
        params = jax.tree.map(lambda p, u: jnp.asarray(p + u, p.dtype), self.params, updates)
        return self.replace(step=self.step + 1, params=params, opt_state=opt_state)

    def observe(self, observations: PyTree) -> "TrainState":
        """Updates the network's running statistics of observations.

        Args:
            observations: Observations with leading sample axes, or the
                [`Moments`][jaxagents.ops.Moments] of each array.

        Returns:
            The updated state; the same state if the network has no such statistics.

        Raises:
            TypeError: The statistics are inside a module that does not forward `observe`.
        """
        if OBSERVED not in self.extra_variables:
            return self
        if not hasattr(self.model_def, "observe"):
            raise TypeError(
                f"{type(self.model_def).__name__} holds a network with running statistics of "
                "its observations: put Normalised(network) around all of it instead."
            )
        _, changed = self(observations, method="observe", mutable=[OBSERVED])
        return self.replace(extra_variables={**self.extra_variables, **changed})

    def apply_loss_fn(
        self,
        *,
        loss_fn: Callable[[PyTree], PyTree],
        has_aux: bool = False,
        axis_name: str | None = None,
    ) -> tuple["TrainState", PyTree]:
        """Takes one gradient step on a loss, which is passed to the optimizer as `value`.

        Args:
            loss_fn: Maps parameters to the loss, or to the loss and auxiliary outputs.
            has_aux: Whether `loss_fn` returns auxiliary outputs.
            axis_name: Axis of `jax.vmap` or `jax.shard_map` to average gradients and outputs over;
                each index of the axis computes the loss of its own part of the data.

        Returns:
            The state after the step, and the auxiliary outputs or, without them, the loss.

        Raises:
            TypeError: `loss_fn` returns auxiliary outputs but `has_aux` is false, or vice versa.
            ValueError: `loss_fn` returns several losses.
        """

        def checked_loss_fn(params: PyTree) -> PyTree:
            output = loss_fn(params)
            check_mean_loss("loss_fn", output, has_info=has_aux)
            return output

        params = self.params if axis_name is None else _separate(self.params, axis_name)
        output, grads = jax.value_and_grad(checked_loss_fn, has_aux=has_aux)(params)
        value, info = output if has_aux else (output, output)
        if axis_name is not None:
            grads, value, info = jax.lax.pmean((grads, value, info), axis_name)
        return self.apply_gradients(grads=grads, value=value), info


def _separate(tree: PyTree, axis_name: str) -> PyTree:
    """Makes values vary along a mapped axis, without changing them.

    The gradient of unvarying values is a sum over the axis (if `shard_map` checks what varies), so
    averaging it would give a result too large by the size of the axis.
    """
    here = jax.lax.axis_index(axis_name) >= 0
    return jax.tree.map(lambda x: jnp.where(here, x, x), tree)


def with_extra_args(
    optimizer: optax.GradientTransformation,
) -> optax.GradientTransformationExtraArgs:
    """Lets an optimizer accept extra arguments, which are passed on if its own update takes any.

    optax decides by the type of an optimizer, but `optax.MultiSteps` takes them despite its type.

    Args:
        optimizer: The optimizer.

    Returns:
        The optimizer; arguments that it does not accept are dropped.
    """
    parameters = inspect.signature(optimizer.update).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return optax.GradientTransformationExtraArgs(optimizer.init, optimizer.update)
    return optax.with_extra_args_support(optimizer)


def target_of(state: TrainState) -> TrainState:
    """Creates a target network: a copy without an optimizer.

    Args:
        state: The online network.

    Returns:
        The copy.
    """
    return TrainState.create(state.model_def, state.params, extra_variables=state.extra_variables)


def target_update(state: TrainState, target: TrainState, tau: float | Array) -> TrainState:
    r"""Moves a target network towards the online network.

    $$\theta' \leftarrow \tau \theta + (1 - \tau) \theta'$$

    Lillicrap et al., 2016, "Continuous control with deep reinforcement learning", algorithm 1.

    Args:
        state: The online network, $\theta$.
        target: The target network, $\theta'$.
        tau: Soft-update coefficient $\tau$; 1 copies the parameters.

    Returns:
        The updated target network, with its own dtypes, and with the online network's other variables
        (such as batch statistics).
    """
    moved = optax.incremental_update(state.params, target.params, tau)
    params = jax.tree.map(lambda new, old: new.astype(old.dtype), moved, target.params)
    return target.replace(
        params=params, extra_variables=jax.tree.map(jnp.copy, state.extra_variables)
    )


def _is_list_of_numbers(x: PyTree) -> bool:
    return isinstance(x, list) and not any(map(np.ndim, jax.tree.leaves(x)))


Info = dict[str, Array]


def losses_and_info(output: PyTree) -> tuple[Array, Info]:
    """Normalises the output of a loss hook.

    Args:
        output: Losses alone; losses and a dict of arrays; or a loss and a mean KL divergence.

    Returns:
        The losses, and a dict of arrays that describe the samples.

    Raises:
        TypeError: The output is none of these.
    """
    losses, info = output if isinstance(output, tuple) and len(output) == 2 else (output, {})
    if not isinstance(info, dict):
        info = {"kl": info}
    info = {name: jnp.asarray(x) if isinstance(x, int | float) else x for name, x in info.items()}
    if not all(hasattr(x, "dtype") for x in [losses, *info.values()]):
        raise TypeError(
            "A loss hook must return an array of losses, one for each sample or one for all, "
            f"alone or with a dict of arrays of metrics of the samples, got {output!r}."
        )
    losses = jnp.asarray(losses)
    if not jnp.issubdtype(losses.dtype, jnp.floating):
        raise TypeError(
            f"A loss hook must return floating-point losses, got {losses.dtype}, which has no "
            "gradient."
        )
    return losses, info


def check_mean_loss(function: str, output: PyTree, *, has_info: bool = True) -> None:
    """Raises unless a function returned a single loss, which JAX can differentiate.

    Args:
        function: Name of the function.
        output: Its output.
        has_info: Whether it must also return a dict of metrics.

    Raises:
        TypeError: The dict is missing, or there is more than the loss without `has_info`.
        ValueError: There are several losses.
    """
    is_tuple = isinstance(output, tuple)
    if is_tuple != has_info or (is_tuple and len(output) != 2):
        due = "a tuple of a loss and a dict of metrics, which may be empty"
        given = f"a tuple of {len(output)}" if is_tuple else f"a {type(output).__name__}"
        raise TypeError(
            f"{function} must return {due if has_info else 'a loss and nothing else'}, got {given}."
        )
    shape = jnp.shape(output[0] if is_tuple else output)
    if shape != ():
        raise ValueError(
            f"{function} must return one loss for all samples, such as their mean, got losses "
            f"of shape {shape}."
        )


def check_shape(
    hook: str,
    shape: tuple[int, ...],
    n_samples: int,
    actors_shape: tuple[int, ...] = (),
    *,
    may_be_one: bool = True,
) -> None:
    """Raises unless there is one loss per sample, or a single one.

    Args:
        hook: Name of the hook that returned the losses.
        shape: Shape of the losses.
        n_samples: Number of samples in a minibatch.
        actors_shape: `()` for one actor, `(n_actors,)` for several.
        may_be_one: Whether a single number is allowed.

    Raises:
        ValueError: The shape differs, for instance because arrays were broadcast by mistake.
    """
    expected = (n_samples, *actors_shape)
    if shape in ((n_samples,), expected) or (may_be_one and shape == ()):
        return
    of_each = " and actor" if actors_shape else ""
    or_one = ", or a single number" if may_be_one else ""
    hint = (
        f": is one of its arrays of shape ({n_samples}, 1)?" if shape else ", such as their mean."
    )
    raise ValueError(
        f"{hook} must return one loss for each sample{of_each}, shape {expected}{or_one}, got "
        f"shape {shape}{hint}"
    )
