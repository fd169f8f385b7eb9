"""`check_env` finds every kind of fault, and nothing else."""

import functools
import random
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnax.environments import spaces
from probes import Box, Discrete, MatchSign, Probe

import jaxagents
from jaxagents import Environment
from jaxagents.envs import Step
from jaxagents.envs.spaces import MultiDiscrete, sample

N_STEPS = 40


class Walk(Environment):
    """A random walk to add faults to."""

    action_space = Discrete(2)
    observation_space = Box(-100.0, 100.0, (1,))

    def seen(self, position):
        return position[None]

    def reset(self, key):
        position = jax.random.uniform(key)
        return self.seen(position), position

    def step(self, key, state, action):
        position = state + 2.0 * action - 1.0
        ended = jax.random.bernoulli(key, 0.2)
        return Step(self.seen(position), position, -jnp.abs(position), ended, False, {})


def with_step(**values):
    """A walk whose steps have other values, given as functions of the step."""

    class Faulty(Walk):
        def step(self, *args):
            step = super().step(*args)
            return step._replace(**{name: value(step) for name, value in values.items()})

    return Faulty()


def check(env, *args, **kwargs):
    return jaxagents.check_env(env, *args, n_steps=N_STEPS, **kwargs)


def refused(env, *messages, **kwargs):
    with pytest.raises(ValueError, match="is not right") as error:
        check(env, **kwargs)
    for message in messages:
        assert message in str(error.value)


def doubted(env, *messages, **kwargs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = check(env, **kwargs)
    assert [str(warning.message) for warning in caught] == list(report.warnings)
    assert len(report.warnings) == len(messages)
    for message, warning in zip(messages, report.warnings, strict=True):
        assert message in warning
        assert f"  warning: {warning}" in str(report)


class Caches(Walk):
    """Keeps an attribute from its first use, and names its mask as agents know it."""

    observation_space = None

    @functools.cached_property
    def table(self):
        return np.arange(3)

    def seen(self, position):
        assert self.table is not None
        return {"observation": position[None], "action_mask": jnp.ones(2, bool)}


def test_finds_nothing_wrong_with_an_environment_that_is_right():
    report = check(Caches())
    assert not report.warnings
    assert (report.n_steps, report.n_actors) == (8 * N_STEPS, None)
    assert not report.truncated.any()
    shown, lengths = str(report), report.lengths
    assert shown.startswith("Caches:\n  actors: 1\n  observation_space: None\n")
    assert f"  steps of random play: 320\n  episodes: {len(lengths)}\n" in shown
    spread = f"{lengths.mean():.4g} (from {lengths.min()} to {lengths.max()})"
    assert f"\n  lengths: {spread}\n  returns: " in shown
    assert str(report._replace(lengths=lengths[:0])).endswith("episodes: 0")


def test_checks_several_actors_while_numbers_may_have_64_bits():
    with jax.enable_x64(True):
        report = check(MatchSign(2, continuous=True))
    assert not report.warnings
    assert set(report.lengths) == {1}
    assert report.n_actors == report.returns.shape[1] == 2


def test_tells_all_mistakes_in_shapes_at_once():
    refused(
        with_step(
            obs=lambda step: jnp.ones(2),
            state=lambda step: jnp.zeros((), jnp.int32),
            reward=lambda step: jnp.ones(3),
            terminated=lambda step: jnp.ones(2, bool),
            truncated=lambda step: jnp.ones(2, bool),
            info=lambda step: None,
        ),
        "from reset but shape (2,) and dtype float32 from step",
        "the state has shape ()",
        "Faulty.step: reward must have shape (), got shape (3,)",
        "Faulty.step: terminated must have shape ()",
        "Faulty.step: truncated must have shape ()",
        "Faulty.step: info must be a dict, got None",
    )
    refused(with_step(reward=lambda step: step.reward + 1j), "reward must be a real number")


def test_refuses_a_reset_without_a_state_and_no_space_to_draw_actions_from():
    class Short(Walk):
        def reset(self, key):
            return jnp.zeros(1)

    class Undeclared(Walk):
        action_space = None

    refused(Short(), "Short.reset must return two values (obs, state), got")
    refused(Undeclared(), "There is no action_space to sample actions from")


class Counts(Walk):
    """Stores its state as an attribute."""

    count = 0

    def step(self, key, state, action):
        self.count = state
        return super().step(key, state, action)


class CountsFromReset(Walk):
    def reset(self, key):
        self.count = 0
        return super().reset(key)

    def step(self, key, state, action):
        self.count += 1
        return super().step(key, state, action)


@pytest.mark.parametrize("env", [Counts(), CountsFromReset()])
def test_refuses_steps_that_write_to_the_environment(env):
    refused(env, f"A reset or a step writes to {type(env).__name__}.count")


def test_refuses_foreign_randomness_and_numbers_that_are_not_finite():
    drawn = random.Random(0)

    class Bursts(Probe):
        n_steps = 5

        def reset_env(self, key, params):
            obs, state = super().reset_env(key, params)
            return obs + jnp.nan, state

        def reward(self, state, action):
            return jnp.where(state.time == 2, jnp.nan, drawn.random())

        def observe(self, state):
            return jnp.where(state.time == 4, jnp.inf, super().observe(state))

    refused(
        Bursts(),
        "gives different outcomes for the same key",
        "Bursts.reset_env returns an observation with NaN or infinity",
        "Bursts.step_env returns a reward with NaN or infinity under random actions, first in "
        "step 3 ",
        "an observation with NaN or infinity under random actions, first in step 4 ",
    )


def test_doubts_dtypes_bounds_kinds_time_limits_that_terminate_and_that_no_key_matters():
    class Doubtful(Walk):
        """Walks to five, drawn nothing for."""

        action_space = None
        observation_space = spaces.Dict(
            {"at": Box(-100.0, 100.0, (1,), jnp.float16), "kind": Discrete(2)}
        )

        def seen(self, position):
            return {"at": position[None], "kind": jnp.full((), 2)}

        def reset(self, key):
            return self.seen(jnp.zeros(())), jnp.zeros(())

        def step(self, key, state, action):
            position = state + 1.0
            ended = (position >= 5.0).astype(int)
            return Step(self.seen(position), position, position, ended, False, {})

    doubted(
        Doubtful(),
        "has dtype float16, but reset returns dtype float32",
        "Doubtful.step: terminated has dtype int32, in which everything but 0 counts as true",
        "does the same whatever the random keys of reset and step are",
        "Doubtful returns observations outside the bounds of its observation_space",
        "episodes of Doubtful terminated after exactly 5 steps",
        sample_action=lambda key: jax.random.randint(key, (), 0, 2),
    )


def test_draws_actions_from_any_space_as_masks_allow():
    space = spaces.Dict(
        {
            "go": Discrete(2),
            "far": Box(-1.0, np.inf, (2,)),
            "at": spaces.Tuple([Box(2.0, 3.0, ())]),
            "pair": MultiDiscrete((2, 3)),
        }
    )
    mask = {"pair": (jnp.array([False, True]), jnp.array([True, False, True]))}
    keys = jax.random.split(jax.random.key(0), 100)
    drawn = jax.jit(jax.vmap(lambda key: sample(space, key, mask)))(keys)
    assert set(np.asarray(drawn["go"])) == {0, 1}
    assert drawn["far"].shape == (100, 2)
    assert (drawn["far"] >= -1.0).all()
    assert ((drawn["at"][0] >= 2.0) & (drawn["at"][0] <= 3.0)).all()
    assert set(map(tuple, np.asarray(drawn["pair"]).tolist())) == {(1, 0), (1, 2)}
