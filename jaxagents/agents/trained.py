"""Agents as trained or restored: what they do with what they have learned."""

import os
from typing import Generic

import jax
import numpy as np
from jaxtyping import ArrayLike, UInt8

from jaxagents.agents.behaviour import ConfigT, HyperparametersT, RunnerT
from jaxagents.agents.memory import Remembers
from jaxagents.agents.steps import Stepwise
from jaxagents.core.keys import RandomKey, single_key
from jaxagents.core.metrics import Metrics, MetricStats
from jaxagents.core.numbers import flag, positive
from jaxagents.envs.films import check_can_film, draw_states, write_film
from jaxagents.exporting import export_policy
from jaxagents.running.where import program_of


class Trained(
    Remembers[RunnerT],
    Stepwise[ConfigT, HyperparametersT, RunnerT],
    Generic[ConfigT, HyperparametersT, RunnerT],
):
    """Plays, films and exports the policy that an agent remembers."""

    def eval(self, rng: RandomKey, n_evals: int = 32, *, deterministic: bool = True) -> Metrics:
        """Plays episodes with the agent as trained or restored.

        Args:
            rng: Random key.
            n_evals: Number of episodes.
            deterministic: Whether to take greedy actions, rather than to draw them from the policy (of
                DQN and its like: epsilon-greedily).

        Returns:
            `returns` (NaN where observations or rewards were not finite), `final_rewards`
            (n_evals, *actors), `terminated`, `truncated`, `lengths` (n_evals,), and what
            `_eval_metrics` adds.

        Raises:
            TypeError: `n_evals` is no integer, or `deterministic` no boolean.
            ValueError: `n_evals` is not positive, or `advance` has used up the agent's runner.
            RuntimeError: The agent has not been trained.
        """
        n_evals, deterministic = positive("n_evals", n_evals), flag("deterministic", deterministic)
        runner = self._trained_runner()
        acting, moment = self._acting(runner), self.moment(runner)
        key = single_key(rng, "eval")
        return program_of(self).play(key, acting, n_evals, deterministic, moment)

    def render_episode(
        self,
        rng: RandomKey,
        path: str | os.PathLike | None = None,
        *,
        max_steps: int = 1_000,
        deterministic: bool = True,
        fps: float | int | None = None,
        runner: RunnerT | None = None,
    ) -> UInt8[np.ndarray, "time height width 3"]:
        """Films an episode of the agent as trained or restored.

        It is the episode that `eval(rng, n_evals=1)` plays, in a compiled program; its states are drawn
        afterwards, by the [`render`][jaxagents.envs.Environment.render] of the environment.

        ```python
        agent.render_episode(jax.random.key(0), "episode.gif")
        ```

        Args:
            rng: Random key.
            path: The file to write, which must not exist; it ends in `.gif`, or in `.mp4` (which needs
                imageio-ffmpeg). None is written by default.
            max_steps: Number of steps after which the film ends, if the episode has not.
            deterministic: Whether to take greedy actions, as in `eval`.
            fps: Steps a second of the film; by default the environment's `render_fps`. A GIF of more
                than 50 leaves out frames, so that time passes as it should.
            runner: The runner that plays, if other than as trained or restored, such as that of a
                [`replay`][jaxagents.agents.agent.Agent.replay].

        Returns:
            The frames, one for the start and one for each step: red, green and blue as bytes.

        Raises:
            NotImplementedError: The environment does not draw.
            TypeError: `deterministic` is no boolean, or `runner` no runner of such an agent.
            ValueError: `path` has another ending, a number is not positive, or the runner is used up or
                does not fit, such as those of several seeds together.
            FileExistsError: The file exists.
            FileNotFoundError: Its folder does not exist.
            ImportError: A library is not installed.
            RuntimeError: The agent has not been trained, and no runner is given.
        """
        deterministic, env = flag("deterministic", deterministic), self.episodes.env
        rate = env.render_fps if fps is None else fps
        check_can_film(env, path, rate)
        longest = min(positive("max_steps", max_steps), self.episodes.max_steps)
        runner = self._trained_runner() if runner is None else runner
        key = single_key(rng, "render_episode")
        with self._naming_misfits(runner):
            acting, moment = self._acting(runner), self.moment(runner)
            states, n_steps = program_of(self).record(key, acting, longest, deterministic, moment)
        frames = draw_states(env.at_update(*moment), states, 1 + int(n_steps))
        if path is not None:
            write_film(path, frames, rate)
        return frames

    def export_policy(self, path: str | os.PathLike) -> None:
        """Writes the policy as trained or restored to one file, which needs no agent to be used.

        [`load_policy`][jaxagents.load_policy] reads it. The file is one of safetensors, with the weights
        that the policy acts by under `weights/...`, and its program as `jax.export` gives it.

        What centralised critics see, the entry `"critic_state"`, is no part of the observations that it
        takes, since no actor reads it.

        Args:
            path: The file, such as `policy.safetensors`.

        Raises:
            ValueError: The name of the file has another ending, or `advance` has used up the agent's
                runner.
            FileExistsError: The file exists.
            FileNotFoundError: Its folder does not exist.
            ImportError: safetensors is not installed.
            RuntimeError: The agent has not been trained.
        """
        acting = jax.device_get(self._acting(self._trained_runner()))
        names = {"agent": type(self).__name__, "environment": self.episodes.env.name}
        carry = self.initial_carry(acting)
        export_policy(path, self.behaviour.act, acting, carry, self._observation, names)

    def summarize(self, metric: ArrayLike) -> MetricStats:
        """Statistics of a metric over its last axis.

        Args:
            metric: Any metric, such as `metrics["returns"]`.

        Returns:
            The statistics.
        """
        return MetricStats.of(metric)
