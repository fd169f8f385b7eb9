"""Training a learner from Python: in a Gymnasium environment, or on a dataset."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import jax
from gymnasium.vector import VectorEnv
from jaxtyping import Array, Key, PyTree

from jaxagents.callbacks import Callback, Progress, as_callbacks
from jaxagents.core.metrics import Metrics
from jaxagents.core.numbers import flag
from jaxagents.data import Dataset, ReplayBuffer
from jaxagents.data.values import check_values
from jaxagents.envs.on_host.arrays import as_observation, example_observation, in_types_of
from jaxagents.envs.on_host.checked import Checked
from jaxagents.host import driver
from jaxagents.host.checkpoint import HostStore, learner_identity
from jaxagents.host.checks import (
    as_dataset,
    check_acts,
    check_another,
    check_buffer,
    check_config,
    check_dataset_actions,
    check_learner,
    check_learns_from_rewards,
)
from jaxagents.host.config import HostConfig, OfflineConfig, OnlineConfig
from jaxagents.host.evaluation import evaluate, supply_rng
from jaxagents.host.journal import Journal
from jaxagents.host.learner_like import LearnerLike, LearnerT
from jaxagents.host.offline import OfflineTraining
from jaxagents.host.online import OnlineTraining
from jaxagents.host.playing import episodes_of, name_of, opened
from jaxagents.host.program import HostRunner
from jaxagents.host.randomness import Stream, seed_of
from jaxagents.host.schedule import Schedule
from jaxagents.host.transitions import example_transition, rescale_actions
from jaxagents.learners.batches import OPTIONAL_KEYS
from jaxagents.loggers import Logger, as_loggers


def train_online(
    learner: LearnerT,
    env: gymnasium.Env | VectorEnv,
    config: OnlineConfig | None = None,
    *,
    eval_env: gymnasium.Env | None = None,
    buffer: ReplayBuffer | None = None,
    resume: bool = False,
    loggers: Sequence[Logger] = (),
    callbacks: Sequence[Callback | Callable[[Progress], bool | None]] = (),
    progress: bool = True,
) -> tuple[LearnerT, Metrics]:
    """Trains a learner in an environment, or in several at once, from a replay buffer.

    ```python
    env = gymnasium.make("HalfCheetah-v5")
    eval_env = gymnasium.make("HalfCheetah-v5")
    learner = SACLearner.create(
        0, env.observation_space.sample(), env.action_space.sample()
    )
    config = OnlineConfig(n_steps=300_000, checkpoint_dir="runs/cheetah")
    learner, metrics = train_online(learner, env, config, eval_env=eval_env)
    ```

    Each step starts the choice of an action, then an update, and takes the action while the update
    runs: the learner acts as it was before that update. Box actions are rescaled from [-1, 1] to the
    environment's bounds. Observations are cast to single precision, unless they are bytes or images of
    integers.

    With `config.n_envs` it plays in copies of an environment that is registered with Gymnasium. A vector
    is played in as it is; only one made with `AutoresetMode.DISABLED` can go on exactly on resuming.

    Args:
        learner: The learner, which is not changed.
        env: An environment with box or discrete actions, and with arrays or dicts of them as
            observations; or a vector of such.
        config: Configuration; by default `OnlineConfig()`.
        eval_env: Another environment, in which the learner is evaluated at every point, in the same
            episodes each time and by the modes of its distributions, unless
            `config.eval_deterministic` is false. By default it is not evaluated.
        buffer: Where transitions go; by default an empty one of `config.buffer_size`. The newest that
            it holds of each environment are marked as the last of their episodes.
        resume: Whether to go on from the last checkpoint of `config.checkpoint_dir`, if there is one.
            The buffer is then filled from there.
        loggers: Receive `evaluation/...` at points, and `training/...` and `steps_per_second` at logs.
        callbacks: Are told how the training goes, and may end it: each a
            [`Callback`][jaxagents.callbacks.Callback], or a function of a
            [`Progress`][jaxagents.callbacks.Progress] that is called after each evaluation.
        progress: Whether to show a progress bar.

    Returns:
        The learner, and metrics with a leading axis of points, the first of them before any step:
            `step`; what [`evaluate`][jaxagents.host.evaluate] gives, shaped `(points, n_evals)`, if
            there is an `eval_env`; and means since the point before, of what updates report and of
            `episode_return` in training (NaN where there was none).

    Raises:
        TypeError: An argument is of another type, such as the name of an environment.
        ValueError: Environments, learner, buffer or checkpoints do not fit together.
        FileExistsError: `config.checkpoint_dir` holds checkpoints, and `resume` is not set.
    """
    config = OnlineConfig() if config is None else config
    check_config(config, OnlineConfig)
    check_learner(learner)
    loggers, callbacks = as_loggers(loggers), as_callbacks(callbacks)
    resume, progress = flag("resume", resume), flag("progress", progress)
    with opened(env, config.n_envs) as played:
        check_another(env, eval_env)
        check_acts(learner, played)
        example = example_transition(played)
        if buffer is None:
            buffer = ReplayBuffer.create(example, config.buffer_size)
        check_buffer(buffer, example)
        store = _store(config, resume)
        buffer.end_episodes()  # in whose midst an earlier training may have stopped
        journal = None if store is None else Journal(store.replay, buffer)
        episodes = episodes_of(played, config.seed)
        config = config.in_turns_of(episodes.n_envs)
        training = OnlineTraining(learner, episodes, example, buffer, config, journal)
        identity = {
            **_identity(learner, eval_env, config),
            "environment": name_of(played),
            "buffer size": buffer.capacity,
        }
        title = f"{type(learner).__name__} on {name_of(played)}"
        return driver.train(
            HostRunner(training),
            _evaluation(learner, eval_env, config),
            Schedule(config.n_steps, config),
            store,
            identity,
            resume,
            loggers,
            callbacks,
            title if progress else None,
        )


def train_offline(
    learner: LearnerT,
    dataset: Dataset | Mapping[str, PyTree],
    config: OfflineConfig | None = None,
    *,
    eval_env: gymnasium.Env | None = None,
    resume: bool = False,
    loggers: Sequence[Logger] = (),
    callbacks: Sequence[Callback | Callable[[Progress], bool | None]] = (),
    progress: bool = True,
) -> tuple[LearnerT, Metrics]:
    """Trains a learner on a dataset.

    ```python
    dataset = Dataset.load("expert.npz")
    learner = SACLearner.create(
        0, dataset["observations"][0], dataset["actions"][0]
    )
    config = OfflineConfig(n_updates=100_000)
    learner, metrics = train_offline(learner, dataset, config)
    ```

    Args:
        learner: The learner, which is not changed.
        dataset: A [`Dataset`][jaxagents.data.Dataset], or a dict of arrays like one, with the keys that
            the learner learns from. Of a learner that declares its `batch_keys`, no others are used
            but `discounts` and `weights`.
        config: Configuration; by default `OfflineConfig()`.
        eval_env: An environment in which the learner is evaluated at every point, in the same episodes
            each time and by the modes of its distributions, unless `config.eval_deterministic` is
            false. By default it is not evaluated.
        resume: Whether to go on from the last checkpoint of `config.checkpoint_dir`, if there is one.
        loggers: Receive `evaluation/...` at points, and `training/...` and `steps_per_second` at logs.
        callbacks: Are told how the training goes, and may end it: each a
            [`Callback`][jaxagents.callbacks.Callback], or a function of a
            [`Progress`][jaxagents.callbacks.Progress] that is called after each evaluation.
        progress: Whether to show a progress bar.

    Returns:
        The learner, and metrics with a leading axis of points, the first of them before any update:
            `step` (updates made); what [`evaluate`][jaxagents.host.evaluate] gives, shaped
            `(points, n_evals)`, if there is an `eval_env`; and means since the point before of what
            updates report (NaN at the first).

    Raises:
        TypeError: An argument is of another type, such as a replay buffer, or the dataset holds
            something else than numbers.
        KeyError: The dataset lacks a key.
        ValueError: Environment, learner, dataset or checkpoints do not fit together: the dataset is
            empty or holds NaN, its actions are none that the learner could take, or rewards are to be
            normalised for a learner that is given none.
        FileExistsError: `config.checkpoint_dir` holds checkpoints, and `resume` is not set.
    """
    config = OfflineConfig() if config is None else config
    check_config(config, OfflineConfig)
    check_learner(learner)
    loggers, callbacks = as_loggers(loggers), as_callbacks(callbacks)
    resume, progress = flag("resume", resume), flag("progress", progress)
    check_learns_from_rewards(learner, config)
    data = as_dataset(dataset)
    check_dataset_actions(learner, data)
    for key in (*getattr(learner, "batch_keys", data), *OPTIONAL_KEYS):
        if key in data:
            check_values({key: data[key]})
    store = _store(config, resume)
    training = OfflineTraining(learner, data, config)
    identity = {**_identity(learner, eval_env, config), "dataset's number of rows": len(data)}
    title = f"{type(learner).__name__} on {len(data)} rows"
    return driver.train(
        HostRunner(training),
        _evaluation(learner, eval_env, config),
        Schedule(config.n_updates, config),
        store,
        identity,
        resume,
        loggers,
        callbacks,
        title if progress else None,
    )


def _store(config: HostConfig, resume: bool) -> HostStore | None:
    """The store of the checkpoints; a filled one is refused unless the training resumes."""
    if config.checkpoint_dir is None:
        if resume:
            raise ValueError("resume=True needs a checkpoint_dir in the configuration.")
        return None
    store = HostStore(config.checkpoint_dir)
    store.check(may_be_filled=resume)
    return store


def _evaluation(
    learner: LearnerLike, env: gymnasium.Env | None, config: HostConfig
) -> Callable[[LearnerLike], Metrics]:
    if env is None:
        return lambda learner: {}
    env = Checked(rescale_actions(env))
    check_acts(learner, env)
    example = example_observation(env.observation_space)
    seed = seed_of(config.seed, Stream.EVALUATION)

    def evaluate_learner(learner: LearnerLike) -> Metrics:
        def policy(observation: PyTree, **keywords: Key[Array, ""]) -> Array:
            seen = in_types_of(example, as_observation(observation))
            return learner.sample_actions(seen, **keywords)

        acting = policy if config.eval_deterministic else supply_rng(policy, jax.random.key(seed))
        return evaluate(acting, env, config.n_evals, seed=seed)

    return evaluate_learner


def _identity(
    learner: LearnerLike, eval_env: gymnasium.Env | None, config: HostConfig
) -> dict[str, Any]:
    """The learner and settings that a training must share with the checkpoints that it continues."""
    return {
        **learner_identity(learner),
        "seed": config.seed,
        "number of evaluation episodes": 0 if eval_env is None else config.n_evals,
    }
