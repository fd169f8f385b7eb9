"""Optimizers with traced parameters, stored in the optimizer state."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jax.typing import ArrayLike
from jaxtyping import PyTree

from jaxagents.core.arrays import in_single_precision
from jaxagents.core.fingerprint import fingerprint
from jaxagents.core.hyperparameters import Hyperparameters, Traced, hyperparameter
from jaxagents.learners.train_state import TrainState, with_extra_args


class OptimizerParams(Hyperparameters):
    """Parameters of an optimizer.

    Subclass it with additional fields (`b1`, `weight_decay`, ...) to trace them as well.

    Attributes:
        learning_rate: Learning rate.
        eps: Term added to the denominator of adaptive optimizers.
        grad_clip: Maximum global norm of the gradient; larger gradients are scaled down.
    """

    learning_rate: Traced = hyperparameter(1e-3, 0.0)
    eps: Traced = hyperparameter(1e-8, 0.0)
    grad_clip: Traced = hyperparameter(10.0, 0.0, infinite=True)


@dataclasses.dataclass(frozen=True)
class SkipNotFinite:
    """An optimizer that skips steps with non-finite gradients.

    ```python
    config = AgentConfig(optimizer=SkipNotFinite(optax.adam))
    ```

    Attributes:
        optimizer: Function that creates the optax optimizer.
        max_in_a_row: Maximum number of consecutive skipped steps; the next one is taken regardless.
    """

    optimizer: Callable[..., optax.GradientTransformation]
    max_in_a_row: int = 2**31 - 1

    def __call__(self, *args: Any, **params: Any) -> optax.GradientTransformation:
        """Creates the optimizer and wraps it in `optax.apply_if_finite`."""
        optimizer = with_extra_args(self.optimizer(*args, **params))
        return optax.apply_if_finite(optimizer, self.max_in_a_row)

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature of the wrapped optimizer."""
        return inspect.signature(self.optimizer)


def annealed_adam(
    learning_rate: optax.ScalarOrSchedule, eps: ArrayLike = 1e-8, *, n_gradient_steps: int
) -> optax.GradientTransformation:
    """Adam with linear annealing of the learning rate to zero.

    Args:
        learning_rate: Initial learning rate.
        eps: Term added to the denominator.
        n_gradient_steps: Number of gradient steps until it is zero.

    Returns:
        The optimizer.
    """
    annealing = optax.linear_schedule(1.0, 0.0, n_gradient_steps)
    return optax.chain(optax.adam(learning_rate, eps=eps), optax.scale_by_schedule(annealing))


def make_optimizer(
    optimizer: Callable[..., optax.GradientTransformation], params: OptimizerParams
) -> optax.GradientTransformation:
    """Creates an optimizer that clips gradients by global norm and keeps its parameters in its state.

    Equal arguments give equal optimizers, so that their states share compiled programs.

    Args:
        optimizer: Function that creates an optax optimizer.
        params: Parameters of the optimizer; only their names matter here (see
            [`set_optimizer_params`][jaxagents.learners.optimizer.set_optimizer_params]).

    Returns:
        The optimizer.
    """

    def clipped(grad_clip: Traced, **params: PyTree) -> optax.GradientTransformation:
        clip = optax.clip_by_global_norm(grad_clip)

        def in_full_precision(grads: PyTree, _: PyTree) -> PyTree:
            clipped, _ = clip.update(in_single_precision(grads), optax.EmptyState())
            return jax.tree.map(lambda new, old: new.astype(old.dtype), clipped, grads)

        return optax.chain(optax.stateless(in_full_precision), with_extra_args(optimizer(**params)))

    names = [f.name for f in dataclasses.fields(params) if f.name != "grad_clip"]
    names = ["grad_clip", *accepted_names(optimizer, names)]
    return _with_data(clipped, names, (optimizer, type(params)))


def acts_on_each_number(optimizer: Callable) -> bool:
    """Whether an optimizer is known to work elementwise.

    It then gives the same result with all parameters in one array, in fewer operations.
    """
    if isinstance(optimizer, SkipNotFinite):
        return acts_on_each_number(optimizer.optimizer)
    if isinstance(optimizer, functools.partial):
        return acts_on_each_number(optimizer.func) and "mask" not in optimizer.keywords
    return optimizer in (optax.adam, optax.adamw, optax.rmsprop, optax.sgd, annealed_adam)


def _with_data(
    make: Callable[..., optax.GradientTransformation], names: list[str], key: object
) -> optax.GradientTransformation:
    """Creates an optimizer with its named arguments in its state; equal keys give equal optimizers."""
    equal_by, keyword = fingerprint(key), inspect.Parameter.KEYWORD_ONLY
    make.__signature__ = inspect.Signature([inspect.Parameter(x, keyword) for x in names])
    made = optax.inject_hyperparams(make)(**dict.fromkeys(names, 0.0))
    return made._replace(
        init=_Function((equal_by, "init"), made.init),
        update=_Function((equal_by, "update"), made.update),
    )


@dataclasses.dataclass(frozen=True)
class _Function:
    """A function of an optimizer; it is equal for equal optimizers."""

    key: Hashable
    function: Callable = dataclasses.field(compare=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def trained_by(
    optimizer: Callable[..., optax.GradientTransformation],
    network: TrainState,
    params: OptimizerParams,
) -> TrainState:
    """Adds an optimizer to a network, with its hyperparameters in the optimizer state.

    Args:
        optimizer: Function that creates an optax optimizer.
        network: The network.
        params: Parameters of the optimizer, possibly traced.

    Returns:
        The train state before its first gradient step.
    """
    tx = make_optimizer(optimizer, params)
    training = network.replace(tx=tx, opt_state=tx.init(network.params))
    return set_optimizer_params(training, params)


def optimized(
    model_def: nn.Module,
    variables: Mapping[str, PyTree],
    optimizer: Callable[..., optax.GradientTransformation],
    learning_rate: Traced,
) -> TrainState:
    """Creates a train state with the learning rate in its optimizer state.

    Args:
        model_def: The network.
        variables: Variables of the network, including the parameters to train.
        optimizer: Function that creates an optax optimizer from a learning rate.
        learning_rate: The learning rate, possibly traced.

    Returns:
        The train state before its first gradient step.
    """

    def of_rate(learning_rate: Traced) -> optax.GradientTransformation:
        return with_extra_args(optimizer(learning_rate))

    tx = _with_data(of_rate, ["learning_rate"], (optimizer, "learning_rate"))
    return with_learning_rate(TrainState.from_variables(model_def, variables, tx), learning_rate)


def with_learning_rate(training: TrainState, learning_rate: Traced) -> TrainState:
    """Replaces the learning rate in the state of an optimizer made by `optimized`."""
    return set_optimizer_params(training, OptimizerParams(learning_rate=learning_rate))


def set_optimizer_params(training: TrainState, params: OptimizerParams) -> TrainState:
    """Replaces the parameters in the optimizer's state."""
    kept = training.opt_state.hyperparams
    new = {name: jnp.asarray(getattr(params, name), jnp.float32) for name in kept}
    return training.replace(opt_state=training.opt_state._replace(hyperparams=new))


def accepted_names(optimizer: Callable, names: list[str]) -> list[str]:
    """The names of arguments that an optimizer accepts, without those that a partial fixes."""
    fixed = fixed_arguments(optimizer)
    parameters = inspect.signature(optimizer).parameters
    takes_any = inspect.Parameter.VAR_KEYWORD in {p.kind for p in parameters.values()}
    return [name for name in names if (takes_any or name in parameters) and name not in fixed]


def fixed_arguments(optimizer: Callable) -> dict[str, Any]:
    """The keyword arguments that partials fix, including those inside `SkipNotFinite`."""
    if isinstance(optimizer, SkipNotFinite):
        return fixed_arguments(optimizer.optimizer)
    if isinstance(optimizer, functools.partial):
        return {**fixed_arguments(optimizer.func), **optimizer.keywords}
    return {}
