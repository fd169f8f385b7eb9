"""Measures the PPO of jaxagents 0.2.5, with the packages of its time."""

import functools
import typing
from collections.abc import Callable, Sequence
from typing import Any

import distrax
import gymnax
import jax
import jax.numpy as jnp
import measure
import optax
from flax import linen as nn
from tasks import Task

# The package annotates with `Optional[Callable[..., [int]]]`: Python before 3.13 must hash that.
type(typing.Callable[[], None]).__hash__ = lambda alias: hash(repr(alias))

from jaxagents.utils.ppo_utils import (  # noqa: E402
    AgentConfig,
    HyperParameters,
    OptimizerParams,
)

from jaxagents.ppo import PPOAgent  # noqa: E402


class Agent(PPOAgent):
    """The package leaves the policy to a subclass."""

    def _distribution(self, training: Any, params: Any, obs: Any) -> Any:
        output = training.apply_fn(params, obs)
        if isinstance(output, tuple):
            return distrax.MultivariateNormalDiag(output[0], jnp.exp(output[1]))
        return distrax.Categorical(logits=output)

    def _entropy(self, training: Any, obs: Any) -> Any:
        return self._distribution(training, training.params, obs).entropy()

    def _log_prob(self, training: Any, params: Any, obs: Any, action: Any) -> Any:
        distribution = self._distribution(training, params, obs)
        return distribution.log_prob(jnp.reshape(action, distribution.event_shape))

    def _sample_action(self, rng: Any, training: Any, obs: Any) -> Any:
        return self._distribution(training, training.params, obs).sample(seed=rng)

    def policy(self, training: Any, obs: Any) -> Any:
        """The most probable action."""
        return self._distribution(training, training.params, obs).mode()


class Trainer:
    """An agent, compiled for every number of updates asked for."""

    length_is_compiled = True

    def __init__(self, task: Task, n_envs: int) -> None:
        """Makes the environment and the hyperparameters."""
        self.task = task
        self.n_envs = n_envs
        self.env = gymnax.make(task.environment)
        self.agent = functools.cache(self._agent)
        self.seeds_at_once = functools.cache(
            lambda n: jax.jit(jax.vmap(self.agent(n).train, in_axes=(0, None)))
        )
        self.rates_at_once = functools.cache(
            lambda n: jax.jit(jax.vmap(lambda key, rate: self._train_at_rate(n, key, rate)))
        )

    def train(self, seed: int, n_updates: int) -> Any:
        """Trains afresh."""
        train = self.agent(n_updates).train
        rate = self.task.learning_rate
        return jax.block_until_ready(train(jax.random.PRNGKey(seed), self._hyperparams(rate)))

    def train_seeds(self, seed: int, n_seeds: int, n_updates: int) -> Any:
        """Trains under `vmap`."""
        rngs = jax.random.split(jax.random.PRNGKey(seed), n_seeds)
        hyperparams = self._hyperparams(self.task.learning_rate)
        return jax.block_until_ready(self.seeds_at_once(n_updates)(rngs, hyperparams))

    def train_rates(self, seed: int, rates: Sequence[float], n_updates: int) -> Any:
        """Trains under `vmap`."""
        rngs = jax.random.split(jax.random.PRNGKey(seed), len(rates))
        return jax.block_until_ready(self.rates_at_once(n_updates)(rngs, jnp.array(rates)))

    def curve(self, seed: int, n_updates: int, n_points: int, n_episodes: int) -> list[float]:
        """Trains with the evaluations that the package makes by itself."""
        agent = self.agent(n_updates, n_points, n_episodes)
        hyperparams = self._hyperparams(self.task.learning_rate)
        _, metrics = agent.train(jax.random.PRNGKey(seed), hyperparams)
        return [float(returns.mean()) for returns in metrics["returns"][1:]]

    def _train_at_rate(self, n_updates: int, rng: Any, rate: Any) -> Any:
        return self.agent(n_updates).train(rng, self._hyperparams(rate))

    def _agent(self, n_updates: int, n_points: int = 1, n_episodes: int = 0) -> Agent:
        task = self.task
        env, env_params = self.env
        space = env.action_space(env_params)
        discrete = hasattr(space, "n")
        config = AgentConfig(
            n_steps=n_updates * n_points,
            batch_size=self.n_envs,
            minibatch_size=self.n_envs // task.n_minibatches,
            rollout_length=task.rollout_length,
            actor_network=network(task, space.n if discrete else space.shape[0], not discrete),
            critic_network=network(task),
            actor_epochs=task.n_epochs + 1,  # it makes one epoch fewer than it is told
            critic_epochs=task.n_epochs,
            optimizer=optax.adam,
            eval_frequency=n_updates,
            eval_rng=jax.random.PRNGKey(1),
            n_evals=n_episodes,
        )
        return Agent(env, env_params, config, eval_during_training=n_episodes > 0)

    def _hyperparams(self, rate: Any) -> HyperParameters:
        task = self.task
        optimizer = OptimizerParams(learning_rate=rate, grad_clip=task.max_gradient_norm)
        return HyperParameters(
            gamma=task.gamma,
            gae_lambda=task.gae_lambda,
            eps_clip=task.clip,
            ent_coeff=task.entropy_coefficient,
            kl_threshold=float("inf"),
            actor_optimizer_params=optimizer,
            critic_optimizer_params=optimizer,
            vf_coeff=task.value_coefficient,
        )


class MLP(nn.Module):
    """An actor with `n_outputs`, and with a standard deviation if it is `gaussian`, or a critic."""

    layers: Sequence[int]
    n_outputs: int | None
    gaussian: bool

    @nn.compact
    def __call__(self, obs: Any) -> Any:
        """Outputs for one observation."""
        x = obs.reshape(-1).astype(jnp.float32)
        for width in self.layers:
            x = nn.tanh(nn.Dense(width, kernel_init=nn.initializers.orthogonal(2**0.5))(x))
        if self.n_outputs is None:
            return nn.Dense(1, kernel_init=nn.initializers.orthogonal(1.0))(x).squeeze(-1)
        output = nn.Dense(self.n_outputs, kernel_init=nn.initializers.orthogonal(0.01))(x)
        if not self.gaussian:
            return output
        return output, self.param("log_std", nn.initializers.zeros, (self.n_outputs,))


def network(
    task: Task, n_outputs: int | None = None, gaussian: bool = False
) -> Callable[[AgentConfig], nn.Module]:
    """What the package makes a network by."""
    return lambda config: MLP(task.hidden_layers, n_outputs, gaussian)


if __name__ == "__main__":
    measure.main("jaxagents", Trainer)
