"""A network in training as one pytree."""

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
    """A network's definition, parameters and optimizer in one callable pytree.

    ```python
    state = TrainState.create(network, params, tx=optax.adam(3e-4))
    y = state(x)
    y = state(x, params=other_params)
    state = state.apply_gradients(grads=grads)
    ```

    It can be pickled and copied, which keeps the network and the optimizer as they are.

    Attributes:
        step: Number of gradient steps taken.
        params: Parameters of the network.
        opt_state: State of the optimizer; `None` without one.
        extra_variables: Further collections of variables (such as batch statistics).
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
        """A state before its first gradient step.

        It copies the arrays, so that it can be donated without harm to others made from the same ones.

        Args:
            model_def: The network.
            params: Its parameters.
            tx: Optax optimizer, if the network is to be trained.
            extra_variables: Further collections of variables.

        Returns:
            The state.

        Raises:
            ValueError: The parameters are also among the further collections.
        """
        if "params" in (extra_variables or {}):
            raise ValueError(
                "extra_variables has a collection 'params', which would take the place of the "
                "parameters: give all variables to TrainState.from_variables, or leave it out."
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
        """A state before its first gradient step, from the output of `model_def.init`.

        Args:
            model_def: The network.
            variables: Its collections of variables, parameters among them.
            tx: Optax optimizer, if the network is to be trained.

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
            extra_variables: Further collections of variables to use instead of the state's own.
            method: Method of the network to call, by name or as a function; `None` calls it.
            **kwargs: Keyword arguments of the network, and of `flax.linen.Module.apply`: with
                `mutable=["batch_stats"]` the output comes with the updated collections, which
                `state.replace(extra_variables=...)` stores.

        Returns:
            The network's output. Errors of the network get a note with the shapes of its inputs.

        Raises:
            TypeError: An input is a list of numbers.
            ValueError: The parameters are of other shapes than such inputs need.
        """
        params = self.params if params is None else params
        extra_variables = self.extra_variables if extra_variables is None else extra_variables
        variables = {"params": params, **extra_variables}
        try:
            with noting_inputs(self.model_def, args):
                return self.model_def.apply(variables, *args, method=method, **kwargs)
        except ScopeParamShapeError as error:
            raise ValueError(
                f"{name_of_network(self.model_def)} was given inputs of shape {shapes_of(args)}, which "
                f"its parameters do not fit: {error}"
            ) from error
        except Exception as error:
            if any(map(_is_list_of_numbers, args)):
                name = name_of_network(self.model_def)
                raise TypeError(
                    f"{name} was given a list of numbers: give an array, np.array(...)."
                ) from error
            raise

    def part(self, name: str) -> "TrainState":
        """The network of a field of the network, without an optimizer.

        Args:
            name: Name of the field.

        Returns:
            Its state.
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
            grads: Gradients, structured as `params`.
            **extra_args: What optimizers take that need more, such as `value`, the loss, for
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
        """The state whose network has observed more, which changes its running statistics.

        Args:
            observations: What the network observes, with leading axes of samples, or the
                [`Moments`][jaxagents.ops.Moments] of each array of them.

        Returns:
            The state, the same if the network has no such statistics.

        Raises:
            TypeError: The network has some, but inside of another that does not reach them.
        """
        if OBSERVED not in self.extra_variables:
            return self
        if not hasattr(self.model_def, "observe"):
            raise TypeError(
                f"{type(self.model_def).__name__} holds a network with running statistics of its "
                "observations: put Normalised(network) outside, around all of it."
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
        """Takes one gradient step down a loss, which optimizers are told as `value`.

        Args:
            loss_fn: Maps parameters to the loss, or to the loss and auxiliary outputs.
            has_aux: Whether `loss_fn` returns auxiliary outputs.
            axis_name: Axis of `jax.vmap` or `jax.shard_map` over which the gradients and the outputs are
                averaged. The loss at each place covers its own share of the data.

        Returns:
            The state after the step, and the auxiliary outputs; without them, the loss.

        Raises:
            TypeError: `loss_fn` returns no auxiliary outputs though it should, or the other way round.
            ValueError: It returns several losses.
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
    """The same values, with a copy of their own for each place of a mapped axis.

    The gradient of values that all places share is a sum over the places (if `shard_map` checks what
    varies), so that its mean would be too large by a factor of their number.
    """
    here = jax.lax.axis_index(axis_name) >= 0
    return jax.tree.map(lambda x: jnp.where(here, x, x), tree)


def with_extra_args(
    optimizer: optax.GradientTransformation,
) -> optax.GradientTransformationExtraArgs:
    """An optimizer that takes further arguments, and hands them on if its own update takes any.

    optax goes by the type of an optimizer, but `optax.MultiSteps` takes arguments and has another type.

    Args:
        optimizer: The optimizer.

    Returns:
        The optimizer; arguments that it does not take are dropped.
    """
    parameters = inspect.signature(optimizer.update).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return optax.GradientTransformationExtraArgs(optimizer.init, optimizer.update)
    return optax.with_extra_args_support(optimizer)


def target_of(state: TrainState) -> TrainState:
    """A target network before its first update: a copy that is not trained.

    Args:
        state: The network in training.

    Returns:
        The copy.
    """
    return TrainState.create(state.model_def, state.params, extra_variables=state.extra_variables)


def target_update(state: TrainState, target: TrainState, tau: float | Array) -> TrainState:
    r"""Moves a target network towards a network in training.

    $$\theta' \leftarrow \tau \theta + (1 - \tau) \theta'$$

    Lillicrap et al., 2016, "Continuous control with deep reinforcement learning", algorithm 1.

    Args:
        state: The network in training, $\theta$.
        target: Its target, $\theta'$.
        tau: Step size $\tau$; 1 copies the parameters.

    Returns:
        The target with its new parameters, of the types that it had, and with the further variables of
        the network in training (such as batch statistics).
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
    """Losses and a dict of arrays that describe samples, of anything that a loss hook may return.

    Args:
        output: Losses alone; or losses and a dict of arrays; or a loss and a mean KL divergence.

    Returns:
        The losses, and the dict.

    Raises:
        TypeError: It is something else.
    """
    losses, info = output if isinstance(output, tuple) and len(output) == 2 else (output, {})
    if not isinstance(info, dict):
        info = {"kl": info}
    info = {name: jnp.asarray(x) if isinstance(x, int | float) else x for name, x in info.items()}
    if not all(hasattr(x, "dtype") for x in [losses, *info.values()]):
        raise TypeError(
            "A loss hook must return an array of losses, one for each sample or one for all, alone or "
            f"with a dict of arrays that describe the samples, got {output!r}."
        )
    losses = jnp.asarray(losses)
    if not jnp.issubdtype(losses.dtype, jnp.floating):
        raise TypeError(
            f"A loss hook must return losses that are real numbers, got {losses.dtype}, which has no "
            "gradient."
        )
    return losses, info


def check_mean_loss(function: str, output: PyTree, *, has_info: bool = True) -> None:
    """Raises unless a function returns one loss for all samples, which JAX can differentiate.

    Args:
        function: Its name.
        output: What it returns.
        has_info: Whether it is to return what describes the loss as well.

    Raises:
        TypeError: It does not return both, or more than the loss though it should not.
        ValueError: It returns several losses.
    """
    is_tuple = isinstance(output, tuple)
    if is_tuple != has_info or (is_tuple and len(output) != 2):
        due = "a tuple of a loss and a dict that describes it, which may be empty"
        given = f"a tuple of {len(output)}" if is_tuple else "no tuple"
        raise TypeError(
            f"{function} must return {due if has_info else 'a loss and nothing else'}, got {given}."
        )
    shape = jnp.shape(output[0] if is_tuple else output)
    if shape != ():
        raise ValueError(
            f"{function} must return one loss for all samples, their mean perhaps, got losses of shape "
            f"{shape}."
        )


def check_shape(
    hook: str,
    shape: tuple[int, ...],
    n_samples: int,
    actors_shape: tuple[int, ...] = (),
    *,
    may_be_one: bool = True,
) -> None:
    """Raises unless losses are of samples, or a single number.

    Args:
        hook: Name of the hook that gives them.
        shape: Their shape.
        n_samples: Number of samples of a minibatch.
        actors_shape: `()` for one actor, `(n_actors,)` for several.
        may_be_one: Whether they may be a single number.

    Raises:
        ValueError: The shape is another, as of arrays that were broadcast against each other.
    """
    expected = (n_samples, *actors_shape)
    if shape in ((n_samples,), expected) or (may_be_one and shape == ()):
        return
    of_each = " and actor" if actors_shape else ""
    or_one = ", or a single number" if may_be_one else ""
    hint = (
        f": is one of its arrays of shape ({n_samples}, 1)?" if shape else ", their mean perhaps."
    )
    raise ValueError(
        f"{hook} must give one loss for each sample{of_each}, of shape {expected}{or_one}, got shape "
        f"{shape}{hint}"
    )
