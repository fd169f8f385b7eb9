"""Learning rates that fall to zero over a training."""

import functools
from typing import TypeVar

import optax
from jax.typing import ArrayLike

from jaxagents.agents.config import Config, LearnerAgentConfig, OnPolicyConfig

ConfigT = TypeVar("ConfigT", bound=Config)


def annealed_adam(
    learning_rate: optax.ScalarOrSchedule, eps: ArrayLike = 1e-8, *, n_gradient_steps: int
) -> optax.GradientTransformation:
    """Adam whose steps shrink linearly to zero.

    Args:
        learning_rate: The first step size.
        eps: Term added to the denominator.
        n_gradient_steps: Number of gradient steps after which nothing is left of it.

    Returns:
        The optimizer.
    """
    annealing = optax.linear_schedule(1.0, 0.0, n_gradient_steps)
    return optax.chain(optax.adam(learning_rate, eps=eps), optax.scale_by_schedule(annealing))


def annealed(config: ConfigT) -> ConfigT:
    """A configuration with Adam, whose learning rate falls linearly to zero over `config.n_steps`.

    A network that takes fewer gradient steps than the others, such as the policy of TD3, keeps a part of
    its rate.

    Args:
        config: The configuration of an agent.

    Returns:
        A copy with another optimizer.

    Raises:
        TypeError: The configuration is of another kind.
    """
    if isinstance(config, OnPolicyConfig):
        n_epochs = max(config.actor_epochs, config.critic_epochs)
        n_gradient_steps = config.n_steps * n_epochs * config.n_minibatches
    elif isinstance(config, LearnerAgentConfig):
        n_gradient_steps = config.n_steps * config.gradient_steps
    else:
        raise TypeError(f"annealed takes the configuration of an agent, got {config!r}.")
    optimizer = functools.partial(annealed_adam, n_gradient_steps=n_gradient_steps)
    return config.replace(optimizer=optimizer)
