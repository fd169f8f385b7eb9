"""PPO with random network distillation (Burda et al., 2019), for exploration with sparse rewards.

`RND` is ready to use; `RNDBase` leaves the policy to a subclass.
"""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct
from jaxtyping import Array, Float, Key, PyTree

from jaxagents import ops, ppo, sharding
from jaxagents.agents.actor_and_critic import own_network, with_parameters
from jaxagents.agents.collect import Transition
from jaxagents.agents.ready_made import ReadyMadePolicy, as_declared
from jaxagents.agents.runners import Runner, observe_rewards
from jaxagents.agents.targets import steps_valued_at_once
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.core.observed import has_extra_entries
from jaxagents.learners.fit import GRADIENT_NORM, LOSS, Fit, fit
from jaxagents.learners.optimizer import OptimizerParams as OptimizerParams
from jaxagents.learners.optimizer import set_optimizer_params, trained_by
from jaxagents.learners.train_state import Info, TrainState
from jaxagents.networks import Dense, Normalised, Torso, remembers
from jaxagents.ppo import PPOBase

_MOST_DEVIATIONS = 5.0
"""The embeddings' observations are clipped to this number of standard deviations."""
_INTRINSIC = "intrinsic_reward"
_PREDICTOR = "predictor"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(ppo.AgentConfig):
    """Static configuration of RND: [PPO's][jaxagents.ppo.AgentConfig], with one more network.

    Attributes:
        embedding_network: The architecture of both target and predictor, which map an observation to a
            vector: a `flax.linen` module, or a function that creates one from this configuration.
            `None` uses an [`Embedding`][jaxagents.rnd.Embedding].
    """

    embedding_network: nn.Module | Callable[..., nn.Module] | None = None


class HyperParameters(ppo.HyperParameters):
    """Traced hyperparameters of RND.

    Extends the [hyperparameters of PPO][jaxagents.ppo.HyperParameters].

    Attributes:
        intrinsic_coeff: Weight of the intrinsic rewards; the environment's have weight 1.
        predictor_share: Fraction of a rollout's samples that the predictor learns from. Lower it with
            many environments, or novelty fades too soon; the paper uses 32 / `n_envs`.
        predictor_optimizer_params: Parameters of the predictor's optimizer.
    """

    intrinsic_coeff: Traced = hyperparameter(0.5, 0.0)
    predictor_share: Traced = hyperparameter(1.0, 0.0, 1.0)
    predictor_optimizer_params: Traced = struct.field(
        default=OptimizerParams(learning_rate=3e-4), kw_only=True
    )


class Embedding(nn.Module):
    """Maps an observation of any structure to a vector.

    Attributes:
        features: Widths of the hidden layers.
        size: Size of the vector.
        n_categories: Number of values of a single-integer observation, which is then one-hot encoded.
    """

    features: Sequence[int] = (128, 128)
    size: int = 64
    n_categories: int | None = None

    @nn.compact
    def __call__(self, obs: PyTree) -> Float[Array, "size"]:
        """Embeds one observation."""
        return Dense(self.size)(Torso(self.features, nn.relu, self.n_categories)(obs))


class Novelty(struct.PyTreeNode):
    """Target and predictor; their difference measures the novelty of an observation.

    Attributes:
        target: The random embedding, which is not trained.
        predictor: The embedding trained to match it, with the moments of the observations.
        received: Discounted intrinsic return so far, environments first.
        returns: Moments of intrinsic returns; their standard deviation scales intrinsic rewards.
    """

    target: TrainState
    predictor: TrainState
    received: Float[Array, "environments"]
    returns: ops.Moments

    def error(self, params: PyTree, obs: PyTree) -> Float[Array, ""]:
        r"""The prediction error at one observation.

        $$\frac{1}{n} \lVert \hat f_\theta(s) - f(s) \rVert^2$$

        Burda et al., 2019, "Exploration by random network distillation", section 2.2.

        Args:
            params: Parameters of the predictor.
            obs: The observation, which is normalised first.

        Returns:
            The mean squared error.
        """
        target = self.target(obs, extra_variables=self.predictor.extra_variables)
        return jnp.square(self.predictor(obs, params=params) - target).mean()


class RNDBase(PPOBase):
    """Base class of RND agents with a custom policy; see [`PPOBase`][jaxagents.ppo.PPOBase].

    RND keeps its own state, a [`Novelty`][jaxagents.rnd.Novelty], in `runner.extra`.
    """

    _config_type = AgentConfig
    _hyperparams_type = HyperParameters
    _hooks = (*PPOBase._hooks, "_embedding_network")

    def vital_arrays(self, runner: Runner) -> dict[str, PyTree]:
        """PPO's arrays and the parameters of the predictor; see `Behaviour`."""
        parameters = {"parameters of the predictor": runner.extra.predictor.params}
        return {**super().vital_arrays(runner), **parameters}

    def _create_runner(self, rng: Key[Array, ""], hyperparams: ppo.HyperParameters) -> Runner:
        rng, target_key, predictor_key = jax.random.split(rng, 3)
        runner = super()._create_runner(rng, hyperparams)
        obs = jax.tree.map(lambda x: x[0], runner.obs)
        embedding = _embedding_of(self)
        target, predictor = (
            with_parameters(embedding, key, obs) for key in (target_key, predictor_key)
        )
        params = runner.hyperparams.predictor_optimizer_params
        novelty = Novelty(
            target=target,
            predictor=trained_by(self.config.optimizer, predictor, params),
            received=jnp.zeros(self.config.batch_size, jnp.float32),
            returns=ops.no_moments(),
        )
        return runner.replace(extra=novelty)

    def _with_hyperparams(self, runner: Runner, hyperparams: ppo.HyperParameters) -> Runner:
        runner = super()._with_hyperparams(runner, hyperparams)
        params = runner.hyperparams.predictor_optimizer_params
        predictor = set_optimizer_params(runner.extra.predictor, params)
        return runner.replace(extra=runner.extra.replace(predictor=predictor))

    def _with_rewards(self, runner: Runner, traj: Transition) -> tuple[Runner, Transition]:
        """Adds intrinsic rewards to a rollout, and updates the runner's statistics.

        The intrinsic rewards are also in `traj.extra`.
        """
        runner, traj = super()._with_rewards(runner, traj)
        next_obs = sharding.in_one_order(traj.next_obs, self.config.replicated_updates)
        predictor = runner.extra.predictor.observe(next_obs)
        novelty: Novelty = runner.extra.replace(predictor=predictor)
        errors = jax.lax.map(
            jax.vmap(lambda obs: novelty.error(predictor.params, obs)),
            traj.next_obs,
            batch_size=steps_valued_at_once(self.config),
        )
        never, gamma = jnp.zeros_like(traj.terminated), runner.hyperparams.gamma
        novelty = observe_rewards(novelty, errors, never, gamma, self.config.replicated_updates)
        intrinsic = ops.scale_rewards(errors, novelty.returns, jnp.inf)
        reward = traj.reward + runner.hyperparams.intrinsic_coeff * intrinsic
        runner = runner.replace(extra=novelty)
        return runner, traj._replace(reward=reward, extra={_INTRINSIC: intrinsic})

    def _learn(
        self, runner: Runner, traj: Transition, rngs: Key[Array, "epochs n_groups"]
    ) -> tuple[Runner, Info]:
        runner, numbers = super()._learn(runner, traj, rngs)
        n_minibatches, replicated = self.config.n_minibatches, self.config.replicated_updates
        predictor = _predictor_fit(runner, traj, rngs)
        [fitted] = fit([predictor], rngs, n_minibatches=n_minibatches, replicated=replicated)
        reports = {f"{_PREDICTOR}_{name}": fitted.info[name] for name in (LOSS, GRADIENT_NORM)}
        runner = runner.replace(extra=runner.extra.replace(predictor=fitted.training))
        return runner, {**numbers, _INTRINSIC: traj.extra[_INTRINSIC].mean(), **reports}

    def _embedding_network(self) -> nn.Module:
        """The embedding, if the configuration has none."""
        if has_extra_entries(self._observation):  # masks are up to a custom network
            return Embedding()
        return as_declared(self, Embedding(n_categories=self.episodes.n_categories))

    def _validate(self) -> None:
        super()._validate()
        name, embedding = f"{type(self.config).__name__}.embedding_network", _embedding_of(self)
        if remembers(embedding):
            raise TypeError(
                f"{name} must map one observation to a vector, but it has a memory: use "
                "memories in actor_network and critic_network."
            )
        key = jax.random.key(0)
        vector, _ = jax.eval_shape(lambda x: embedding.init_with_output(key, x), self._observation)
        if len(vector.shape) != 1:
            raise ValueError(
                f"{name} must output a vector for one observation, got the shape {vector.shape}."
            )


def _embedding_of(agent: RNDBase) -> Normalised:
    """The target and predictor network."""
    return Normalised(own_network(agent, "embedding_network"), clip=_MOST_DEVIATIONS)


def _predictor_fit(runner: Runner, traj: Transition, rngs: Key[Array, "epochs n_groups"]) -> Fit:
    """How to fit the predictor to a rollout, with one epoch per key."""
    novelty, share = runner.extra, runner.hyperparams.predictor_share
    key = jax.random.fold_in(rngs[0, 0], 0)  # `fit` only uses the key as a seed
    weight = jax.random.bernoulli(key, share, traj.terminated.shape) / jnp.maximum(share, 1e-6)

    def loss_fn(training: TrainState, obs: PyTree, weight: Array) -> tuple[Array, Info]:
        errors = jax.vmap(lambda obs: novelty.error(training.params, obs))(obs)
        return weight * errors, {}

    return Fit(novelty.predictor, loss_fn, (traj.next_obs, weight), n_epochs=len(rngs))


class RND(ReadyMadePolicy[ppo.AgentConfig, ppo.HyperParameters], RNDBase):
    """RND for discrete and continuous actions.

    ```python
    env, env_params = gymnax.make("MountainCarContinuous-v0")
    agent = RND(env, env_params, AgentConfig(n_steps=200))
    runner, metrics = agent.train(jax.random.key(0), HyperParameters())
    ```

    The policy and the default networks are the same as in [`PPO`][jaxagents.ppo.PPO].
    """

    def _embedding_network(self) -> nn.Module:
        """The default embedding."""
        return as_declared(self, Embedding(n_categories=self.episodes.n_categories))
