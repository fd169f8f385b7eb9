"""Environments that overwrite their inputs, and arrays that they returned earlier."""

import jax
import numpy as np
import pytest
import trees
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium_probes import Steered
from parallel_probes import Relay

from jaxagents import SAC, sac
from jaxagents.envs import Gymnasium, PettingZoo
from jaxagents.envs.on_host.environment import Terms
from jaxagents.envs.on_host.episodes import HostEpisodes
from jaxagents.envs.on_host.vectors import Vector

KEY = jax.random.key(0)
SEEDS = np.arange(2, dtype=np.uint32)
TERMS = Terms(max_steps=9)


class Overwriting(Steered):
    """Returns the same arrays and the same info every time, and overwrites the action."""

    def __init__(self):
        super().__init__("rgb_array")
        self._picture = np.zeros((4, 6, 3), np.uint8)
        self._seen, self._info = np.zeros(3, np.float32), {"action": np.zeros(())}

    def _observation(self):
        self._seen[:] = super()._observation()
        return self._seen

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        self._info["action"][...] = info["action"]
        action[:] = 9
        return observation, reward, terminated, truncated, self._info

    def render(self):
        self._picture[:] = super().render()
        return self._picture


class Pulling(Relay):
    """A relay with continuous actions."""

    def __init__(self):
        super().__init__("rgb_array")

    def action_space(self, agent):
        return spaces.Box(-2.0, 2.0, (1,), np.float32)


class OverwritingBoth(Pulling):
    """Returns the same arrays every time, and overwrites the actions."""

    def render(self):
        self._picture = getattr(self, "_picture", super().render())
        self._picture[:] = super().render()
        return self._picture

    def step(self, actions):
        outcome = super().step({agent: x.copy() for agent, x in actions.items()})
        for x in actions.values():
            x[:] = 9
        return outcome

    def _seen(self):
        seen = super()._seen()
        self._arrays = getattr(self, "_arrays", seen)
        for agent, x in seen.items():
            self._arrays[agent][:] = x
        return {agent: self._arrays[agent] for agent in seen}


def drawing():
    return Steered("rgb_array")


def copies(kind):
    with Gymnasium(kind).playing("film", 2, TERMS) as episodes:
        return episodes


def vector(mode):
    def make(kind):
        return HostEpisodes(Vector(SyncVectorEnv([kind] * 2, autoreset_mode=mode)), 9)

    return make


def actors(kind):
    with PettingZoo(kind).playing("film", 2, TERMS) as episodes:
        return episodes


@pytest.mark.parametrize(
    ("make", "kinds", "shape"),
    [
        (copies, (drawing, Overwriting), (2, 1)),
        (vector(AutoresetMode.DISABLED), (drawing, Overwriting), (2, 1)),
        (vector(AutoresetMode.NEXT_STEP), (drawing, Overwriting), (2, 1)),
        (actors, (Pulling, OverwritingBoth), (2, 2, 1)),
    ],
)
def test_steps_are_the_same_and_stay_as_they_were(make, kinds, shape):
    def played(kind):
        episodes, rng = make(kind), np.random.default_rng(0)
        episodes.restart(SEEDS)
        actions = [rng.uniform(-2, 2, shape).astype(np.float32) for _ in range(20)]
        return [(episodes.obs, x, episodes.step(x)) for x in actions], episodes.pictures

    trees.assert_equal(*map(played, kinds))


def test_an_agent_learns_the_same():
    fields = {"n_steps": 3, "batch_size": 1, "rollout_length": 8}
    of_buffer = {"buffer_size": 64, "learning_starts": 8, "minibatch_size": 8, "features": (4,)}

    def trained(kind):
        agent = SAC(Gymnasium(kind), None, sac.AgentConfig(**fields, **of_buffer), False)
        runner, _ = agent.train(KEY, progress=False)
        return {**runner.buffer.to_dataset()}, runner.learner.actor.params

    trees.assert_equal(trained(Overwriting), trained(Steered))


def test_a_vector_that_loses_last_observations_is_refused():
    episodes = vector(AutoresetMode.SAME_STEP)(Overwriting)
    episodes.restart(SEEDS)

    def play():
        for _ in range(9):
            episodes.step(np.zeros((2, 1), np.float32))

    with pytest.raises(ValueError, match=r"Overwriting returns .* same array.*SAME_STEP"):
        play()
