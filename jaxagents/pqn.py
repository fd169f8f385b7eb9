"""Parallelised Q-networks (Gallici et al., 2024), without a replay buffer or a target network."""

import dataclasses
from collections.abc import Callable
from typing import ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike, Bool, Float, Key, PyTree

from jaxagents import ops, sharding
from jaxagents.agents.collect import Sequence, by_environment, starts
from jaxagents.agents.config import LearnerAgentConfig, PlayingHyperparameters
from jaxagents.agents.learner_agent import ActionValues, update_on
from jaxagents.agents.runners import RolloutRunner
from jaxagents.core.arrays import in_32_bits, repeated, select
from jaxagents.core.config import checked
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.core.numbers import check_divides, check_multiple, positive
from jaxagents.core.observed import Steps
from jaxagents.core.report import OBSERVATIONS, REWARDS, Flags, Report, nonfinite_environments
from jaxagents.engine.host_rollout import HostCollection, HostRollout
from jaxagents.learners.config import Example
from jaxagents.learners.fit import in_groups
from jaxagents.learners.learner import Batch, Info
from jaxagents.learners.q_learning import QConfig, ValueLearner


def clipped_radam(learning_rate: optax.ScalarOrSchedule) -> optax.GradientTransformation:
    """Rectified Adam (Liu et al., 2020) with gradients clipped to a norm of 10, as in the paper."""
    return optax.chain(optax.clip_by_global_norm(10.0), optax.radam(learning_rate))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PQNConfig(QConfig):
    """Static configuration of PQN's learner, inherited by the agent's configuration.

    Attributes:
        optimizer: A function that creates an optax optimizer from a learning rate.
    """

    target_update_period: ClassVar[int] = 1
    optimizer: Callable[..., optax.GradientTransformation] = clipped_radam


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(PQNConfig, LearnerAgentConfig):
    """Static configuration of PQN.

    Each update collects `rollout_length` steps in each of `batch_size` environments, and then takes
    `gradient_steps` gradient steps on `minibatch_size` transitions each.

    Attributes:
        batch_size: Number of parallel environments (`num_envs` in other libraries).
        rollout_length: Number of steps per environment and update.
        minibatch_size: Number of transitions per gradient step; must divide the number in a rollout.
            With a memory, a multiple of `rollout_length * n_groups`, so that sequences stay whole.
        gradient_steps: Number of gradient steps per update, in whole epochs.
    """

    n_steps: int = 1_000
    eval_frequency: int = 100
    batch_size: int = checked(32, positive)
    rollout_length: int = checked(64, positive)
    minibatch_size: int = 128
    gradient_steps: int = 64

    shared_out = ("batch_size", "minibatch_size", "n_groups")

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        n_samples, name = self.batch_size * self.rollout_length, type(self).__name__
        what = f"the {n_samples} transitions of a rollout (batch_size * rollout_length)"
        check_divides(f"{name}.minibatch_size", self.minibatch_size, n_samples, what)
        whole = self.rollout_length * self.n_groups
        if self.has_memory and self.minibatch_size % whole:
            n = self.batch_size // self.n_groups
            sizes = ", ".join(str(whole * i) for i in range(1, n + 1) if n % i == 0)
            raise ValueError(
                f"{name}.minibatch_size must be a multiple of rollout_length * n_groups "
                f"({whole}) where the critic has a memory, got {self.minibatch_size}. Values "
                f"that work: {sizes}."
            )
        what = f"the {self.n_minibatches} minibatches of a rollout"
        check_multiple(f"{name}.gradient_steps", self.gradient_steps, self.n_minibatches, what)

    @property
    def n_minibatches(self) -> int:
        """Number of minibatches per epoch."""
        return self.batch_size * self.rollout_length // self.minibatch_size

    @property
    def n_epochs(self) -> int:
        """Number of passes over each rollout."""
        return self.gradient_steps // self.n_minibatches


class HyperParameters(PlayingHyperparameters):
    """Traced hyperparameters of PQN.

    Attributes:
        gamma: Discount.
        q_lambda: Trace decay of the returns: 0 looks one step ahead, 1 uses all rewards of the rollout.
        epsilon: Probability of a random action, often a [schedule][jaxagents.LinearSchedule].
        critic_learning_rate: Learning rate of the network.
    """

    gamma: Traced = hyperparameter(0.99, 0.0, 1.0)
    q_lambda: Traced = hyperparameter(0.65, 0.0, 1.0)
    epsilon: Traced = hyperparameter(0.1, 0.0, 1.0)
    critic_learning_rate: Traced = hyperparameter(2.5e-4, 0.0)


class PQNLearner(ValueLearner[PQNConfig, HyperParameters]):
    """PQN's learner: a Q-network with layer normalisation, fitted to returns.

    Gallici et al., 2024, "Simplifying deep temporal difference learning", algorithm 1. Its batches hold
    `returns`, such as [`ops.lambda_returns`][jaxagents.ops.lambda_returns] of the greedy values.

    Attributes:
        critic: The network.
    """

    _config_type = PQNConfig
    _hyperparams_type = HyperParameters
    _layer_norm = True
    batch_keys = ("observations", "actions", "returns")

    @classmethod
    def _initial(
        cls,
        config: PQNConfig,
        hyperparams: HyperParameters,
        rng: Key[Array, ""],
        example: Example,
    ) -> Self:
        rng, key = jax.random.split(rng)
        critic = cls._create_critic(config, hyperparams.critic_learning_rate, key, example)
        return cls(config=config, hyperparams=hyperparams, rng=rng, critic=critic)

    def _update(self, batch: Batch) -> tuple[Self, Info]:
        critic, info = self._fit_critic(batch, batch["returns"])
        return self.replace(critic=critic), info

    def _loss(
        self, params: PyTree, batch: Batch, targets: Float[Array, "batch"]
    ) -> tuple[Float[Array, "batch"], Info]:
        """Half the squared error."""
        q = ops.values_of(self._q(params, batch["observations"]), batch["actions"])
        return optax.l2_loss(q, targets), {"q": q}


class _Steps(NamedTuple):
    """A rollout, shaped `(time, environments, ...)`; `nonfinite` flags non-finite values."""

    obs: PyTree
    action: Array
    reward: Array
    next_value: Array
    terminated: Array
    truncated: Array
    nonfinite: Flags


class PQN(ActionValues[AgentConfig, HyperParameters, RolloutRunner, PQNLearner]):
    r"""Parallelised Q-networks for discrete actions.

    Many environments replace the replay buffer, and layer normalisation replaces the target network.
    The network is fitted, in minibatches, to the returns of its own rollouts,

    $$G_t = r_t + \gamma \left((1 - \lambda) \max_a Q(s_{t+1}, a) + \lambda G_{t+1}\right)$$

    computed from its values during the rollout, and bootstrapped at the end of the rollout and where
    episodes are truncated. With a memory, it learns from whole sequences, each starting from the memory
    that preceded it in the rollout.

    ```python
    env, env_params = gymnax.make("CartPole-v1")
    agent = PQN(env, env_params, AgentConfig(n_steps=250))
    exploration = LinearSchedule(1.0, 0.05, 50)
    runner, metrics = agent.train(
        jax.random.key(0), HyperParameters(epsilon=exploration)
    )
    agent.q(obs), agent.policy(obs)
    ```
    """

    split_fields = ("envstate", "obs", "carry")
    _config_type = AgentConfig
    _hyperparams_type = HyperParameters
    _discrete_learner = PQNLearner

    def vital_arrays(self, runner: RolloutRunner) -> dict[str, PyTree]:
        """The learner's networks and the observations; see `Behaviour`."""
        return {**super().vital_arrays(runner), OBSERVATIONS: runner.obs}

    def _create_runner(self, rng: Key[Array, ""], hyperparams: HyperParameters) -> RolloutRunner:
        learner_rng, env_rng, rng = jax.random.split(rng, 3)
        obs, envstate = jax.vmap(self.episodes.reset)(
            jax.random.split(env_rng, self.config.batch_size)
        )
        return RolloutRunner(
            learner=self._create_learner(learner_rng, hyperparams),
            rng=rng,
            update_step=jnp.zeros((), jnp.int32),
            info={},
            envstate=envstate,
            obs=obs,
            carry=repeated(self._initial_memories(), self.config.batch_size),
        )

    def _training_step(self, runner: RolloutRunner) -> tuple[RolloutRunner, Report]:
        carry = runner.carry
        runner, steps, rngs = self._play(runner)
        return self._update_from(runner, carry, steps, rngs)

    @property
    def host_collection(self) -> HostCollection:
        """How the agent acts and learns in environments on the host; see `Behaviour`."""
        config = self.config

        def keys_of(runner: RolloutRunner) -> tuple[Key[Array, ""], Key[Array, ""], Array]:
            """Keys for the next runner, the steps and the epochs."""
            rngs = jax.random.split(runner.rng, 2 + config.n_epochs * config.n_groups)
            return rngs[0], rngs[1], rngs[2:].reshape(config.n_epochs, config.n_groups)

        def draw(runner: RolloutRunner, block: ArrayLike) -> Key[Array, "steps"]:
            _, key, _ = keys_of(runner)
            return jax.random.split(jax.random.fold_in(key, block), config.rollout_length)

        def act(
            learner: PQNLearner, carry: PyTree, obs: PyTree, key: Key[Array, ""]
        ) -> tuple[PyTree, Array, tuple[()]]:
            seen = self._seen(carry, obs)
            return learner.memory_after(seen), learner.sample_actions(seen, seed=key), ()

        def learn(runner: RolloutRunner, played: HostRollout) -> tuple[RolloutRunner, Report]:
            learner = runner.learner

            def next_value(step: tuple[PyTree, PyTree, PyTree]) -> Float[Array, "environments"]:
                carry, obs, next_obs = step
                memory = learner.memory_after(self._seen(carry, obs))
                return self._largest_value(learner, self._seen(memory, next_obs))

            steps = _Steps(
                obs=played.obs,
                action=jnp.asarray(played.action),
                reward=jnp.asarray(played.reward),
                next_value=jax.lax.map(next_value, (played.carry, played.obs, played.next_obs)),
                terminated=jnp.asarray(played.terminated),
                truncated=jnp.asarray(played.truncated),
                nonfinite=jax.vmap(nonfinite_environments)(
                    {REWARDS: played.reward, OBSERVATIONS: played.next_obs}
                ),
            )
            rng, _, rngs = keys_of(runner)
            carry = jax.tree.map(lambda x: x[0], played.carry)
            return self._update_from(runner.replace(rng=rng), carry, steps, rngs)

        return HostCollection(
            lambda learner: self._initial_memories(),
            draw,
            act,
            lambda runner, where: runner,
            learn,
        )

    def _update_from(
        self,
        runner: RolloutRunner,
        carry: PyTree,
        steps: _Steps,
        rngs: Key[Array, "epochs n_groups"],
    ) -> tuple[RolloutRunner, Report]:
        """Learns from a rollout, compiled or from the host.

        Args:
            runner: The runner after the rollout.
            carry: The memories before the rollout.
            steps: The rollout.
            rngs: Random keys, one per epoch and group of environments.

        Returns:
            The updated runner, and the report.
        """
        learner, infos = self._epochs(runner, carry, steps, rngs)
        if learner.observes:
            learner = learner.observe(
                sharding.in_one_order(steps.obs, self.config.replicated_updates)
            )
        nonfinite = jax.tree.map(lambda x: x.any(axis=0), steps.nonfinite)
        report = Report(in_32_bits(jax.tree.map(jnp.mean, infos)), nonfinite)
        return runner.replace(learner=learner), report

    def _play(
        self, runner: RolloutRunner
    ) -> tuple[RolloutRunner, _Steps, Key[Array, "epochs n_groups"]]:
        """Collects a rollout; returns the runner after it, the rollout, and keys for the epochs."""
        config, learner, initial = self.config, runner.learner, self._initial_memories()
        n_keys = config.rollout_length * (1 + 2 * config.batch_size)
        rngs = jax.random.split(runner.rng, 1 + n_keys + config.n_epochs * config.n_groups)
        step_rngs = rngs[1 : 1 + n_keys].reshape(config.rollout_length, -1)

        def act_and_step(carry: tuple, rngs: Key[Array, "keys"]) -> tuple[tuple, _Steps]:
            obs, envstate, memory = carry
            seen = self._seen(memory, obs)
            action = learner.sample_actions(seen, seed=rngs[0])
            keys = sharding.whole(rngs[1:].reshape(config.batch_size, 2))
            taken = self.episodes.step_all(keys, envstate, action)
            memory = learner.memory_after(seen)
            next_value = self._largest_value(learner, self._seen(memory, taken.next_obs))
            outcome = taken.reward, next_value, taken.terminated, taken.truncated
            given = {REWARDS: taken.reward, OBSERVATIONS: taken.next_obs}
            steps = _Steps(obs, action, *outcome, nonfinite_environments(given))
            ends = taken.terminated | taken.truncated
            memory = jax.vmap(select, (0, None, 0))(ends, initial, memory)
            return (taken.obs, taken.envstate, memory), steps

        players = (runner.obs, runner.envstate, runner.carry)
        (obs, envstate, memory), steps = jax.lax.scan(act_and_step, players, step_rngs)
        if config.replicated_updates:
            steps = sharding.whole(steps)
        rngs_of_epochs = rngs[1 + n_keys :].reshape(config.n_epochs, config.n_groups)
        runner = runner.replace(rng=rngs[0], obs=obs, envstate=envstate, carry=memory)
        return runner, steps, rngs_of_epochs

    def _largest_value(self, learner: PQNLearner, obs: PyTree) -> Float[Array, "environments"]:
        """The value of the greedy action."""
        return learner.allowed_q(learner.critic.params, obs).max(axis=-1)

    def _epochs(
        self,
        runner: RolloutRunner,
        carry: PyTree,
        steps: _Steps,
        rngs: Key[Array, "epochs n_groups"],
    ) -> tuple[PQNLearner, Info]:
        """Runs all epochs; returns the learner and each minibatch's metrics; see `_update_from`."""
        config, hyperparams = self.config, runner.hyperparams
        returns = ops.lambda_returns(
            steps.reward,
            steps.next_value,
            steps.terminated,
            steps.truncated,
            hyperparams.gamma,
            hyperparams.q_lambda,
        )
        samples = {"observations": steps.obs, "actions": steps.action, "returns": returns}
        carry = sharding.whole(carry) if config.replicated_updates else carry
        elements = elements_of(samples, carry, starts(steps.terminated | steps.truncated))
        elements = jax.tree.map(lambda x: in_groups(x, config.n_groups), elements)
        n_of_group = elements["returns"].shape[1]

        def minibatch(learner: PQNLearner, indices: Array) -> tuple[PQNLearner, Info]:
            batch = batch_of(ops.take_minibatch(elements, indices))
            return update_on(config, learner, batch)

        def epoch(learner: PQNLearner, rngs: Key[Array, "n_groups"]) -> tuple[PQNLearner, Info]:
            seeds = jax.random.key_data(rngs)[..., :2]
            indices = ops.minibatch_indices(seeds, n_of_group, config.n_minibatches)
            return jax.lax.scan(minibatch, learner, indices)

        return jax.lax.scan(epoch, runner.learner, rngs)


def elements_of(samples: Batch, carry: PyTree, first: Bool[Array, "time environments"]) -> PyTree:
    """Splits a rollout into the elements of minibatches.

    Args:
        samples: The samples of all steps, shaped `(time, environments, ...)`.
        carry: The memories before the first step; `()` without memory.
        first: Whether each step starts a new episode.

    Returns:
        Single samples; with memory, the sequence of each environment.
    """
    if not carry:
        return samples
    start = jax.tree.map(lambda x: x[None], carry)
    sequences = Sequence(samples["observations"], start, first)
    return by_environment({**samples, "observations": sequences})


def batch_of(minibatch: PyTree) -> Batch:
    """Converts a minibatch of elements to a learner's batch; sequences become steps."""
    sequences = minibatch["observations"]
    if not isinstance(sequences, Sequence):
        return minibatch
    obs, carry, first = sequences
    length = first.shape[1]
    carries = jax.tree.map(lambda x: jnp.repeat(x, length, axis=1), carry)
    rows = {**minibatch, "observations": obs}
    rows, carries, first = jax.tree.map(
        lambda x: x.reshape(-1, *x.shape[2:]), (rows, carries, first)
    )
    return {**rows, "observations": Steps(carries, rows["observations"], first, length, burn_in=0)}
