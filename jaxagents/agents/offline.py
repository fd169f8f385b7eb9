"""Base class of agents that learn from a fixed dataset."""

import functools
import math
import zlib
from collections.abc import Hashable, Mapping
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree

from jaxagents import ops, sharding
from jaxagents.agents.config import OfflineAgentConfig, SequencesConfig
from jaxagents.agents.learner_agent import LearnerAgent, Units, update_on
from jaxagents.agents.runners import LearnerRunner
from jaxagents.agents.sampling import CARRIES, Sampling
from jaxagents.core import processes
from jaxagents.core.arrays import in_32_bits
from jaxagents.core.fingerprint import fingerprint
from jaxagents.core.numbers import check_multiple
from jaxagents.core.observed import action_mask
from jaxagents.core.report import Report
from jaxagents.data import Dataset, rows
from jaxagents.data.units import box_of, check_units, lie_within, words
from jaxagents.data.values import (
    check_are_numbers,
    check_order,
    check_values,
    moments_of_rows,
    reward_factor,
)
from jaxagents.engine.behaviour import GivenEnvironment
from jaxagents.engine.program import HyperparametersT
from jaxagents.envs.spaces import Box, is_discrete
from jaxagents.learners.batches import OPTIONAL_KEYS
from jaxagents.learners.learner import Batch, Info, LearnerT
from jaxagents.networks.torsos import IMAGE_NDIM

OfflineConfigT = TypeVar("OfflineConfigT", bound=SequencesConfig)

_OBSERVED_KEYS = ("observations", "next_observations")
_copies: WeakKeyDictionary[Dataset, dict[Hashable, tuple["Groups", tuple]]] = WeakKeyDictionary()
"""Copies of each dataset on the device, with digests to detect changes."""


class OfflineBase(LearnerAgent[OfflineConfigT, HyperparametersT, LearnerRunner]):
    """Learns from random rows of a dataset on the device; the environment is only used for evaluation.

    The dataset is the agent's `data`. Runners and checkpoints do not contain it, and seeds that are
    trained together share it.
    """

    _config_type = SequencesConfig
    _moments: PyTree = None
    """Running statistics of the dataset's observations, if they are normalised."""

    def __init__(
        self,
        env: GivenEnvironment,
        env_params: PyTree,
        config: OfflineConfigT,
        eval_during_training: bool = True,
        *,
        dataset: Dataset,
    ) -> None:
        """Creates an agent and copies its dataset to the device.

        Args:
            env: The environment for evaluations; see
                [`Agent`][jaxagents.agents.agent.Agent].
            env_params: Its parameters; `None` uses `env.default_params`.
            config: Static configuration.
            eval_during_training: Whether the agent is evaluated at each evaluation point of
                training.
            dataset: Transitions with the environment's observations, in which dicts (keyed by position
                or field name) replace tuples and dataclasses. Continuous actions are in the units of
                the dataset's [`action_space`][jaxagents.data.Dataset], even if the environment has
                different bounds; without one, they are assumed to be in the environment's units, with a
                warning if they look rescaled to [-1, 1]. Agents with the same dataset share its arrays
                on the device, which stay there as long as the dataset exists. Later in-place changes
                affect only new agents. If several processes train together, each passes its own part.

        Raises:
            KeyError: The dataset lacks a key, such as `ends` to normalise rewards.
            TypeError: `dataset` is not a `Dataset`, its values are not numbers, or discrete actions are
                not integers; see also [`Agent`][jaxagents.agents.agent.Agent].
            ValueError: The dataset does not fit the environment, has too few rows, takes an action that
                its mask forbids, has actions out of bounds, or contains NaN; see also
                [`Agent`][jaxagents.agents.agent.Agent].
        """
        super().__init__(env, env_params, config, eval_during_training)
        self._check_action_space()
        self.data = self._to_device(dataset)
        if self._observes():
            observations = rows.structured_as(self._observation, dataset["observations"])
            self._moments = _of_all_processes(moments_of_rows(observations))

    def _observes(self) -> bool:
        """Whether any of the learner's networks keeps running statistics of observations."""
        if self.config.normalise_observations or self.config.has_default_networks:
            return self.config.normalise_observations
        key = jax.eval_shape(lambda: jax.random.key(0))
        return jax.eval_shape(self._create_learner, key, self._hyperparams_type()).observes

    def _checked(self, dataset: Dataset) -> dict[str, PyTree]:
        """The arrays that the learner needs, after checking that they fit the environment."""
        if not isinstance(dataset, Dataset):
            hint = ": pass Dataset(arrays)" if isinstance(dataset, Mapping) else ""
            raise TypeError(
                f"{type(self).__name__} takes a jaxagents.data.Dataset, got a {type(dataset).__name__}"
                f"{hint}."
            )
        keys = self._learner_type.batch_keys
        if self.config.has_memory:
            keys = (*keys, "ends")
        rows.check_has(f"{type(self).__name__} learns from", keys, dataset, "the dataset")
        arrays = {key: dataset[key] for key in (*keys, *OPTIONAL_KEYS) if key in dataset}
        check_are_numbers(arrays)
        own = jax.tree.map(lambda x: tuple(x.shape), rows.in_dicts(self._observation))
        for key in _OBSERVED_KEYS:
            found = jax.tree.map(lambda x: tuple(x.shape[1:]), arrays.get(key))
            if key in arrays and found != own:
                raise ValueError(
                    f"The dataset's {key} have shape {found}, but the environment's have {own}."
                )
        if self.config.has_memory:
            # A memory advances one step per row.
            if "discounts" in dataset:
                raise ValueError(
                    f"{type(self).__name__} has a memory, which follows episodes step by step, "
                    "but the dataset has 'discounts', so each row spans several steps: use the "
                    "dataset without n_step, or an agent without a memory."
                )
            check_order(type(self).__name__, dataset)
        self._check_actions(dataset, action_mask(arrays["observations"]))
        return arrays

    def _units_of(self, dataset: Dataset) -> Units:
        """The units of a dataset's actions: its `action_space`, or else the environment's."""
        is_known = dataset.action_space is not None and not self._units.is_discrete
        return Units(dataset.action_space) if is_known else self._units

    def _to_device(self, dataset: Dataset) -> "Groups":
        """Copies the arrays that the learner needs to the device, with actions in its units."""
        arrays = self._checked(dataset)
        n_groups, n_processes = self.config.n_groups, jax.process_count()
        what = f"the {n_processes} processes, which each have their own part of the dataset"
        check_multiple("n_groups", n_groups, n_processes, what)
        n_groups //= n_processes
        replay = Sampling.of(self.config)
        if len(dataset) < n_groups * replay.length:
            raise ValueError(
                f"The dataset has {len(dataset) or 'no'} rows; it needs at least "
                f"{'one' if replay.length == 1 else replay.length} for each of {n_groups} groups."
            )
        copies = _copies.setdefault(dataset, {})
        scales = isinstance(self.config, OfflineAgentConfig) and self.config.normalise_rewards
        factor = reward_factor(dataset) if scales else None
        units = self._units_of(dataset)
        spaces = fingerprint((units.space, self._observation))
        kind = (tuple(arrays), spaces, n_groups, factor)
        digest = _digest(arrays)
        if kind not in copies or copies[kind][1] != digest:
            check_values(arrays)
            arrays["actions"] = units.to_learner(arrays["actions"])
            for key in arrays.keys() & set(_OBSERVED_KEYS):
                arrays[key] = self._as_played(arrays[key])
            if factor is not None:
                arrays["rewards"] = arrays["rewards"] * factor
            groups = jax.tree.map(jnp.asarray, _deal(arrays, n_groups))
            copies[kind] = groups, digest
        return copies[kind][0]

    def _as_played(self, observations: PyTree) -> PyTree:
        """Observations in the environment's structure; integers become floats where it has floats.

        Images are left unchanged.
        """

        def as_played(x: np.ndarray, one: jax.ShapeDtypeStruct) -> np.ndarray:
            is_table = x.dtype.kind in "iu" and one.ndim < IMAGE_NDIM
            is_real = jnp.issubdtype(one.dtype, jnp.floating)
            return x.astype(np.float32) if is_table and is_real else x

        structured = rows.structured_as(self._observation, observations)
        return jax.tree.map(as_played, structured, self._observation)

    def _check_actions(self, dataset: Dataset, mask: PyTree) -> None:
        """Raises if actions lie outside their space, or if a mask that allows others forbids them."""
        actions, box = np.asarray(dataset["actions"]), self._units_of(dataset).space
        space, name = self.episodes.action_space, self.episodes.env.wording.environment
        shape, known = tuple(space.shape), dataset.action_space
        if is_discrete(space):
            if not np.issubdtype(actions.dtype, np.integer):
                raise TypeError(f"Discrete actions must be integers, got type {actions.dtype}.")
            box, known = Box(0, space.n - 1, shape), None
        if actions.shape[1:] != shape:
            raise ValueError(
                f"The dataset's actions have shape {actions.shape[1:]}, but {name}'s have {shape}."
            )
        if known is None and not is_discrete(space):
            check_units(actions, box_of(space), name)
        if not lie_within(actions, box):
            inside = f"{name}'s action_space {space!r}"
            remedy = "They must be in the environment's units."
            if known is not None:
                inside = f"the box {words(known)} that it says they are in"
                remedy = "Correct whichever is wrong."
            raise ValueError(
                f"The dataset's actions lie in [{actions.min():g}, {actions.max():g}], which is "
                f"not inside {inside}. {remedy}"
            )
        if mask is None or not is_discrete(space) or np.ndim(mask) != 2:
            return
        allowed = np.asarray(mask, bool)
        is_taken = actions[:, None] == np.arange(allowed.shape[-1])
        wrong = np.flatnonzero(allowed.any(axis=-1) & ~(allowed & is_taken).any(axis=-1))
        if wrong.size:
            row = wrong[0]
            raise ValueError(
                f"The dataset takes action {actions[row]} in row {row}, whose action_mask "
                f"allows only {np.flatnonzero(allowed[row]).tolist()}, and takes forbidden "
                f"actions in {len(wrong)} of {len(actions)} rows: leave these rows out, with "
                "get_subset, or correct the masks."
            )

    def _create_runner(self, rng: Key[Array, ""], hyperparams: HyperparametersT) -> LearnerRunner:
        learner_rng, rng = jax.random.split(rng)
        learner = self._create_learner(learner_rng, hyperparams)
        if learner.observes:
            learner = learner.observe(self._moments)
        return LearnerRunner(
            learner=learner,
            rng=rng,
            update_step=jnp.zeros((), jnp.int32),
            info={},
        )

    def _training_step(self, runner: LearnerRunner) -> tuple[LearnerRunner, Report]:
        shape = self.config.gradient_steps, len(self.data.sizes)  # groups of the whole mesh
        rngs = jax.random.split(runner.rng, 1 + math.prod(shape))
        learner, info = self._learn(runner.learner, sharding.whole(rngs[1:].reshape(shape)))
        return runner.replace(learner=learner, rng=rngs[0]), Report(in_32_bits(info))

    def _learn(
        self, learner: LearnerT, rngs: Key[Array, "gradient_steps groups"]
    ) -> tuple[LearnerT, Info]:
        """Takes gradient steps; also returns their mean metrics."""

        def gradient_step(learner: LearnerT, rngs: Key[Array, "groups"]) -> tuple[LearnerT, Info]:
            learner, info = update_on(self.config, learner, self._sample(rngs))
            info.pop("td_errors", None)
            return learner, info

        learner, infos = jax.lax.scan(gradient_step, learner, rngs)
        return learner, jax.tree.map(lambda x: x.mean(axis=0), infos)

    def _sample(self, rngs: Key[Array, "groups"]) -> Batch:
        """Samples rows or sequences uniformly, equally many from each group."""
        replay, memories = Sampling.of(self.config), self._initial_memories()
        n_of_group = self.config.minibatch_size // len(rngs) // replay.length

        def of_group(rng: Key[Array, ""], group: Groups) -> dict[str, PyTree]:
            indices = ops.random_indices(rng, n_of_group, group.sizes - (replay.length - 1))
            if memories:
                indices = jnp.add.outer(indices, jnp.arange(replay.length))
            return jax.tree.map(lambda x: x[indices], group.arrays)

        rows = jax.vmap(of_group)(rngs, self.data)
        rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows)
        if not memories:
            return rows
        shape = rows["ends"].shape
        carries = jax.tree.map(lambda x: jnp.broadcast_to(x, (*shape, *x.shape)), memories)
        return replay.batch_of_sequences({**rows, CARRIES: carries}, gamma=1.0)


class Groups(NamedTuple):
    """A dataset split into groups.

    Attributes:
        arrays: Arrays of shape `(groups, rows, ...)`.
        sizes: Number of rows in each group; further rows are padding.
    """

    arrays: dict[str, PyTree]
    sizes: Int[Array, "groups"]


def _digest(arrays: dict[str, PyTree]) -> tuple[int, ...]:
    return tuple(
        zlib.crc32(np.ascontiguousarray(x).reshape(-1).view(np.uint8).data)
        for x in jax.tree.leaves(arrays)
    )


def _of_all_processes(moments: PyTree) -> PyTree:
    """Merges the moments of all processes' parts of a dataset."""
    if jax.process_count() == 1:
        return moments
    parts = processes.gathered(moments)
    each = [jax.tree.map(lambda x, i=i: x[i], parts) for i in range(jax.process_count())]
    merge = functools.partial(
        jax.tree.map, ops.merge_moments, is_leaf=lambda x: isinstance(x, ops.Moments)
    )
    return jax.tree.map(np.asarray, functools.reduce(merge, each))


def _deal(arrays: dict[str, PyTree], n_groups: int) -> Groups:
    """Splits rows, in order, into groups whose sizes differ by at most one."""
    n_rows = len(arrays["actions"])
    sizes = np.array([len(part) for part in np.array_split(np.arange(n_rows), n_groups)], np.int32)
    dealt = np.minimum((np.cumsum(sizes) - sizes)[:, None] + np.arange(sizes[0]), n_rows - 1)

    def in_groups(array: Array | np.ndarray) -> Array | np.ndarray:
        return array[None] if n_groups == 1 else np.asarray(array)[dealt]

    return Groups(jax.tree.map(in_groups, arrays), jnp.asarray(sizes))
