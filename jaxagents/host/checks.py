"""Checks of what a training on the host is given, before anything runs."""

from collections.abc import Iterable, Mapping

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv, VectorEnv
from jaxtyping import Array, PyTree

from jaxagents.data import Dataset, ReplayBuffer, rows
from jaxagents.data.values import check_allowed
from jaxagents.envs.on_host.vectors import spaces_of_one
from jaxagents.host.config import HostConfig, OfflineConfig
from jaxagents.host.evaluation import check_single
from jaxagents.host.learner_like import LearnerLike
from jaxagents.host.transitions import example_transition
from jaxagents.networks.torsos import IMAGE_NDIM

_LARGEST_ACTION = 1 + 1e-5
_METHODS = ("update_many", "sample_actions")
_TAKEN = (
    "step",
    "returns",
    "lengths",
    "final_rewards",
    "terminated",
    "truncated",
    "episode_return",
)


def check_learner(learner: object) -> None:
    """Raises unless this is a learner.

    Raises:
        TypeError: It is a class, or lacks a method.
    """
    if isinstance(learner, type):
        name = learner.__name__
        raise TypeError(
            f"learner must be a learner, got the class {name}: make one with "
            f"{name}.create(seed, observations, actions)."
        )
    missing = [method for method in _METHODS if not hasattr(learner, method)]
    if missing:
        raise TypeError(
            f"learner must have the methods {list(_METHODS)}, but {type(learner).__name__} lacks "
            f"{missing}."
        )


def check_config(config: object, kind: type[HostConfig]) -> None:
    """Raises unless this is a configuration of a kind.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(config, kind):
        hint = f": give {kind.__name__}(**config)" if isinstance(config, Mapping) else ""
        raise TypeError(f"config must be an {kind.__name__}, got {type(config).__name__}{hint}.")


def as_dataset(dataset: object) -> Dataset:
    """A dataset, or a dict of arrays, as a dataset.

    Raises:
        TypeError: It is something else.
        ValueError: It has no rows, or its arrays do not fit together.
    """
    if not isinstance(dataset, Dataset | Mapping):
        hint = ": give buffer.to_dataset()" if isinstance(dataset, ReplayBuffer) else ""
        raise TypeError(
            "dataset must be a Dataset, or a dict of arrays like one, got "
            f"{type(dataset).__name__}{hint}."
        )
    data = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
    if not len(data):
        raise ValueError("The dataset has no rows.")
    return data


def check_dataset_actions(learner: LearnerLike, dataset: Dataset) -> None:
    """Raises unless a learner could have taken the actions of a dataset.

    Args:
        learner: The learner, which says by `discrete_actions` whether its actions are discrete. If it
            does not, whole numbers are taken to be.
        dataset: The dataset.

    Raises:
        ValueError: Continuous actions are outside of [-1, 1], or discrete ones are not 0, 1, 2, ... up
            to the number of the learner's actions, or one of them is forbidden by a mask.
    """
    for actions in jax.tree.leaves(dataset["actions"]) if "actions" in dataset else []:
        if getattr(learner, "discrete_actions", actions.dtype.kind in "iu"):
            _check_discrete(actions, _n_actions(learner))
            check_allowed(dataset.get("observations"), actions)
        elif actions.dtype.kind in "iuf" and actions.size:
            _check_continuous(actions)


def check_acts(learner: LearnerLike, env: gymnasium.Env | VectorEnv) -> None:
    """Raises unless a learner gives actions that an environment takes.

    Args:
        learner: The learner.
        env: The environment, or a vector of them, with rescaled actions.

    Raises:
        ValueError: It cannot take the environment's observations, or gives other actions.
    """
    name, (observation_space, space) = type(learner).__name__, spaces_of_one(env)
    example = example_transition(env)
    try:
        action = jax.eval_shape(_mode, learner, example["observations"])
    except Exception as error:
        raise ValueError(
            f"{name} cannot act on observations of {observation_space}: {error}"
        ) from error
    kind = np.integer if isinstance(space, spaces.Discrete) else np.floating
    if action.shape != space.shape or not np.issubdtype(action.dtype, kind):
        raise ValueError(
            f"{name} gives actions of shape {action.shape} and dtype {action.dtype}, but the "
            f"environment takes actions of {space}. Create the learner with "
            "env.action_space.sample() as its example of actions."
        )
    n_actions = _n_actions(learner)
    if isinstance(space, spaces.Discrete) and n_actions not in (None, space.n):
        raise ValueError(
            f"{name} has {n_actions} actions, but the environment takes actions of {space}: create "
            f"the learner with n_actions={space.n}."
        )


def check_another(env: gymnasium.Env | VectorEnv, eval_env: gymnasium.Env | None) -> None:
    """Raises if evaluations would play in the environment in which training plays.

    Raises:
        TypeError: `eval_env` is not a single environment.
        ValueError: They would.
    """
    if eval_env is None:
        return
    check_single(eval_env)
    given = env.unwrapped
    players = given.envs if isinstance(given, SyncVectorEnv) else [given]
    if any(eval_env.unwrapped is player.unwrapped for player in players):
        raise ValueError(
            "eval_env must be another environment than env, whose episodes an evaluation would "
            "disturb: make a second one."
        )


def check_buffer(buffer: ReplayBuffer, example: Mapping[str, PyTree]) -> None:
    """Raises unless a replay buffer takes the transitions of an environment.

    Args:
        buffer: The buffer.
        example: A transition.

    Raises:
        TypeError: It is no replay buffer.
        ValueError: It holds other arrays, or images whose numbers mean something else.
    """
    if not isinstance(buffer, ReplayBuffer):
        raise TypeError(f"buffer must be a ReplayBuffer, got {type(buffer).__name__}.")
    transitions, needed = buffer.state_dict()["transitions"], rows.flatten(example)
    shapes = {name: array.shape[1:] for name, array in transitions.items()}
    needed_shapes = {name: array.shape for name, array in needed.items()}
    if shapes != needed_shapes:
        raise ValueError(
            f"The buffer holds transitions of the shapes {shapes}, but the environment gives "
            f"{needed_shapes}: make it of jaxagents.host.example_transition(env, n_envs)."
        )
    for name, array in needed.items():
        held = transitions[name].dtype
        if array.ndim >= IMAGE_NDIM and (held.kind == "f") != (array.dtype.kind == "f"):
            raise ValueError(
                f"The buffer holds images of {held} as {name!r}, but the environment gives "
                f"{array.dtype}: encoders take integers to be in 0..255, and real numbers in 0..1. Make "
                "it of jaxagents.host.example_transition(env, n_envs)."
            )


def check_learns_from_rewards(learner: LearnerLike, config: OfflineConfig) -> None:
    """Raises if rewards are to be normalised for a learner that is given none.

    Raises:
        ValueError: They are.
    """
    keys = getattr(learner, "batch_keys", ("rewards",))
    if config.normalise_rewards and "rewards" not in keys:
        raise ValueError(
            f"normalise_rewards does nothing for {type(learner).__name__}, which learns from "
            f"{list(keys)}: leave it out."
        )


def check_reported(names: Iterable[str], learner: LearnerLike) -> None:
    """Raises if a learner reports something under the name of another metric.

    Raises:
        ValueError: It does.
    """
    taken = sorted(set(names) & set(_TAKEN))
    if taken:
        raise ValueError(
            f"{type(learner).__name__}'s updates report {taken}, names that other metrics have: "
            "rename them."
        )


def _n_actions(learner: LearnerLike) -> int | None:
    """The number of a learner's actions, if it says it."""
    return getattr(learner, "n_actions", None)


def _check_continuous(actions: np.ndarray) -> None:
    low, high = actions.min(), actions.max()
    if not -_LARGEST_ACTION <= low <= high <= _LARGEST_ACTION:
        raise ValueError(
            f"Actions must lie in [-1, 1], where learners act, but those of the dataset lie in "
            f"[{low:g}, {high:g}]. Rescale them from the bounds of their space, as "
            "from_minari(..., rescale_actions=True) does."
        )


def _check_discrete(actions: np.ndarray, n_actions: int | None) -> None:
    if actions.dtype.kind not in "iu":
        raise ValueError(
            f"Discrete actions must be whole numbers, but those of the dataset are {actions.dtype}."
        )
    if actions.size and not 0 <= actions.min() <= actions.max() < (n_actions or np.inf):
        last = "..." if n_actions is None else f"..., {n_actions - 1}"
        raise ValueError(
            f"Discrete actions must be 0, 1, {last}, but those of the dataset lie in "
            f"[{actions.min()}, {actions.max()}]."
        )


def _mode(learner: LearnerLike, observation: PyTree) -> Array:
    return learner.sample_actions(observation)
