"""A two-player pursuit game in a walled square, as a JAX environment.

A fast but sluggish pursuer chases a slower, nimble evader. Each agent commands a velocity that it
reaches with limited acceleration, so the pursuer overshoots when the evader turns sharply. The
rewards are zero-sum. Agent 0 is always the pursuer and agent 1 the evader.

The environment follows the five-value gymnax style (`reset_env`, `step_env`) without depending on
gymnax. It has no time limit: set one in the agent's configuration.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, PRNGKeyArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

Scalar = Float[Array, ""]
Flag = Bool[Array, ""]
PerActor = Float[Array, "2"]
PerActorXY = Float[Array, "2 2"]
Observation = Float[Array, "2 8"]
Steps = Float[np.ndarray, "points"]
Returns = Float[np.ndarray, "points episodes 2"]
Track = Float[np.ndarray, "time 2"]
Tracks = Float[np.ndarray, "time 2 2"]

ROLES = ("pursuer", "evader")
ROLE_COLOURS = ("#D55E00", "#0072B2")
ROLE_MARKERS = ("o", "s")
ROLE_LINESTYLES = ("-", "--")
CATCH_STYLE = {"marker": "*", "ls": "", "color": "#F0E442", "mec": "black", "ms": 32, "zorder": 3}


@struct.dataclass
class PursuitParams:
    """Geometry, dynamics and rewards of the game.

    Attributes:
        half_width: Half the side of the square arena, in m.
        pursuer_speed: Top speed of the pursuer, in m/s.
        evader_speed: Top speed of the evader, in m/s.
        pursuer_acceleration: Largest acceleration of the pursuer, in m/s^2.
        evader_acceleration: Largest acceleration of the evader, in m/s^2.
        catch_radius: Distance at or below which the evader is caught, in m.
        dt: Duration of one step, in s.
        catch_bonus: Reward of the pursuer for the catch.
        step_cost: Reward the pursuer loses to the evader on every step.
    """

    half_width: float = 5.0
    pursuer_speed: float = 4.0
    evader_speed: float = 3.5
    pursuer_acceleration: float = 6.0
    evader_acceleration: float = 24.0
    catch_radius: float = 0.4
    dt: float = 0.05
    catch_bonus: float = 1.0
    step_cost: float = 0.01


@struct.dataclass
class PursuitState:
    """Motion of both agents.

    Attributes:
        position: Positions from the arena's centre, in m, shape (2 agents, 2).
        velocity: Velocities, in m/s, shape (2 agents, 2).
    """

    position: PerActorXY
    velocity: PerActorXY


@dataclass(frozen=True)
class Box:
    """A continuous space with the same bounds in every component.

    Attributes:
        low: Lower bound.
        high: Upper bound.
        shape: Shape of one element.
        dtype: Dtype of the components.
    """

    low: float
    high: float
    shape: tuple[int, ...]
    dtype: Any = jnp.float32

    def sample(self, key: PRNGKeyArray) -> Float[Array, "..."]:
        """Samples one element uniformly, shape `shape`."""
        return jax.random.uniform(key, self.shape, self.dtype, self.low, self.high)

    def contains(self, x: Float[Array, "..."]) -> Flag:
        """Tells whether every component of `x` lies within the bounds."""
        return jnp.all((x >= self.low) & (x <= self.high))


class Pursuit:
    """A pursuer and an evader in a walled square: the evader loses when it is caught."""

    n_actors = 2

    @property
    def name(self) -> str:
        """Name of the environment."""
        return "Pursuit"

    @property
    def default_params(self) -> PursuitParams:
        """Parameters of the standard game."""
        return PursuitParams()

    def action_space(self, params: PursuitParams) -> Box:
        """Returns the action space of one agent: a velocity as a fraction of its top speed."""
        return Box(-1.0, 1.0, (2,))

    def observation_space(self, params: PursuitParams) -> Box:
        """Returns the space of the joint observation, one row per agent."""
        return Box(-2.0, 2.0, (self.n_actors, 8))

    def reset_env(
        self, key: PRNGKeyArray, params: PursuitParams
    ) -> tuple[Observation, PursuitState]:
        """Places both agents at rest, on opposite sides of a random point near the centre.

        Args:
            key: Random key.
            params: Parameters of the game.

        Returns:
            Observation of shape (2 agents, 8) and the initial state.
        """
        state = PursuitState(
            position=_draw_start(key, params.half_width),
            velocity=jnp.zeros((2, 2), jnp.float32),
        )
        return _observe(state, params), state

    def step_env(
        self,
        key: PRNGKeyArray,
        state: PursuitState,
        action: PerActorXY,
        params: PursuitParams,
    ) -> tuple[Observation, PursuitState, PerActor, Flag, dict[str, Scalar]]:
        """Moves both agents for one time step.

        Args:
            key: Random key, unused since the motion is deterministic.
            state: State before the step.
            action: Commanded velocities as fractions of the top speeds, shape (2 agents, 2), each
                component in [-1, 1]. Commands longer than 1 are shortened to the top speed.
            params: Parameters of the game.

        Returns:
            Observation of shape (2 agents, 8), the next state, the opposing rewards of shape
            (2 agents,), whether the evader is caught, and the distance between the agents in m.
        """
        next_state = _move(state, action, params)
        distance = _distance(next_state)
        caught = distance <= params.catch_radius
        approach = (_distance(state) - distance) / params.half_width
        gain = approach + params.catch_bonus * caught - params.step_cost
        reward = jnp.stack([gain, -gain])
        return _observe(next_state, params), next_state, reward, caught, {"distance": distance}


def _draw_start(key: PRNGKeyArray, half_width: float) -> PerActorXY:
    """Draws start positions 0.8 to 1.3 half-widths apart, in m, shape (2 agents, 2)."""
    midpoint_key, heading_key, offset_key = jax.random.split(key, 3)
    midpoint = jax.random.uniform(midpoint_key, (2,), jnp.float32, -0.3, 0.3)
    heading = jax.random.uniform(heading_key, (), jnp.float32, 0.0, 2.0 * jnp.pi)
    offset = jax.random.uniform(offset_key, (), jnp.float32, 0.4, 0.65)
    direction = jnp.stack([jnp.cos(heading), jnp.sin(heading)])
    return half_width * jnp.stack([midpoint - offset * direction, midpoint + offset * direction])


def _top_speeds(params: PursuitParams) -> PerActor:
    return jnp.array([params.pursuer_speed, params.evader_speed], jnp.float32)


def _accelerations(params: PursuitParams) -> PerActor:
    return jnp.array([params.pursuer_acceleration, params.evader_acceleration], jnp.float32)


def _shorten(vectors: PerActorXY, longest: PerActor) -> PerActorXY:
    """Scales each row down to the length `longest` where it is longer, shape (2 agents, 2)."""
    length = jnp.linalg.norm(vectors, axis=-1)
    return vectors * (longest / jnp.maximum(length, longest))[:, None]


def _move(state: PursuitState, action: PerActorXY, params: PursuitParams) -> PursuitState:
    """Accelerates both agents towards their commanded velocities and stops them at the walls."""
    command = _shorten(jnp.asarray(action, jnp.float32), jnp.ones(2, jnp.float32))
    target_velocity = command * _top_speeds(params)[:, None]
    velocity_change = _shorten(target_velocity - state.velocity, _accelerations(params) * params.dt)
    velocity = state.velocity + velocity_change
    unbounded = state.position + velocity * params.dt
    inside = jnp.abs(unbounded) <= params.half_width
    return PursuitState(
        position=jnp.clip(unbounded, -params.half_width, params.half_width),
        velocity=jnp.where(inside, velocity, 0.0),
    )


def _distance(state: PursuitState) -> Scalar:
    return jnp.linalg.norm(state.position[1] - state.position[0])


def _observe(state: PursuitState, params: PursuitParams) -> Observation:
    """Stacks each agent's own position and velocity, and those of the other relative to it.

    Lengths are in half-widths of the arena and velocities in top speeds of the faster agent.

    Returns:
        Views of shape (2 agents, 8): own position, own velocity, relative position of the other,
        relative velocity of the other.
    """
    position = state.position / params.half_width
    velocity = state.velocity / jnp.max(_top_speeds(params))
    return jnp.concatenate(
        [position, velocity, position[::-1] - position, velocity[::-1] - velocity], axis=-1
    )


def plot_learning(
    steps: Steps,
    returns: Returns,
    path: str | Path | None = None,
) -> "Figure":
    """Plots the median episode return of both roles with bands from the 10 % to the 90 % quantile.

    Args:
        steps: Environment steps trained before each evaluation, shape (points,).
        returns: Undiscounted episode returns, shape (points, episodes, 2 agents).
        path: Where to save the figure; unsaved and left open if None.

    Returns:
        The figure.
    """
    import matplotlib.pyplot as plt

    low, median, high = np.quantile(np.asarray(returns), [0.1, 0.5, 0.9], axis=1)
    figure, axes = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
    for actor, (role, colour) in enumerate(zip(ROLES, ROLE_COLOURS, strict=True)):
        axes.fill_between(steps, low[:, actor], high[:, actor], color=colour, alpha=0.2, lw=0)
        axes.plot(
            steps,
            median[:, actor],
            color=colour,
            ls=ROLE_LINESTYLES[actor],
            marker=ROLE_MARKERS[actor],
            ms=4,
            lw=2,
            label=f"{role} (median, 10 to 90 % band)",
        )
    axes.axhline(0.0, color="0.6", lw=0.8, zorder=0)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}")
    axes.set(xlabel="environment steps (thousands)", ylabel="episode return")
    axes.set_title("Pursuit: returns of the opposing roles")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    if path is not None:
        _save_and_close(figure, path)
    return figure


def plot_trajectories(
    positions: Tracks,
    path: str | Path | None = None,
    params: PursuitParams | None = None,
) -> "Figure":
    """Plots the paths of one episode, fading in from start to end.

    Args:
        positions: Positions after the reset and after each step, in m, shape (time, 2 agents, 2).
            Everything after the first catch is left out.
        path: Where to save the figure; unsaved and left open if None.
        params: Parameters of the game that was played; the standard ones if None.

    Returns:
        The figure.
    """
    params = params or PursuitParams()
    positions, caught = _until_catch(np.asarray(positions), params)
    figure, axes = _draw_arena(params)
    for actor, trail in enumerate(_add_trails(axes)):
        _set_trail(trail, positions[:, actor], ROLE_COLOURS[actor], faintest=0.25)
        axes.plot(*positions[0, actor], ROLE_MARKERS[actor], mfc="white", **_marker_style(actor))
        axes.plot(
            *positions[-1, actor],
            ROLE_MARKERS[actor],
            label=ROLES[actor],
            **_marker_style(actor),
        )
    axes.plot([], [], "o", color="0.3", mfc="white", ms=9, label="start (open)")
    if caught:
        axes.plot(*positions[-1].mean(axis=0), label="catch", **CATCH_STYLE)
    outcome = "caught after" if caught else "still free after"
    axes.set_title(f"Pursuit: {outcome} {(len(positions) - 1) * params.dt:.2f} s")
    _draw_legend(axes)
    if path is not None:
        _save_and_close(figure, path)
    return figure


def animate(
    positions: Tracks,
    path: str | Path,
    params: PursuitParams | None = None,
    fps: int = 20,
    trail_steps: int = 30,
    hold_frames: int = 15,
) -> None:
    """Writes one episode as a GIF, in real time at the standard step of 0.05 s.

    Args:
        positions: Positions after the reset and after each step, in m, shape (time, 2 agents, 2).
            Everything after the first catch is left out.
        path: Where to save the GIF.
        params: Parameters of the game that was played; the standard ones if None.
        fps: Frames, one per step, shown per second.
        trail_steps: Length of the fading trails, in steps.
        hold_frames: Number of times the last frame is repeated, to show the outcome.
    """
    import matplotlib.pyplot as plt
    from matplotlib.animation import PillowWriter

    params = params or PursuitParams()
    positions, caught = _until_catch(np.asarray(positions), params)
    figure, axes = _draw_arena(params)
    trails = _add_trails(axes)
    markers = [
        axes.plot([], [], ROLE_MARKERS[actor], label=role, **_marker_style(actor))[0]
        for actor, role in enumerate(ROLES)
    ]
    (catch,) = axes.plot([], [], label="catch", **CATCH_STYLE)
    _draw_legend(axes)
    axes.set_title("Pursuit")
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    last = len(positions) - 1
    writer = PillowWriter(fps=fps)
    with writer.saving(figure, str(path), dpi=80):
        for time in (*range(last + 1), *[last] * hold_frames):
            recent = positions[max(0, time - trail_steps) : time + 1]
            for actor in range(Pursuit.n_actors):
                _set_trail(trails[actor], recent[:, actor], ROLE_COLOURS[actor], faintest=0.05)
                markers[actor].set_data(recent[-1:, actor, 0], recent[-1:, actor, 1])
            caught_now = caught and time == last
            if caught_now:
                catch.set_data(*positions[-1].mean(axis=0)[:, None])
            axes.set_title(f"Pursuit: {time * params.dt:5.2f} s{', caught' * caught_now}")
            writer.grab_frame()
    plt.close(figure)


def _marker_style(actor: int) -> dict[str, Any]:
    return {"color": ROLE_COLOURS[actor], "mec": ROLE_COLOURS[actor], "ms": 9, "zorder": 4}


def _until_catch(positions: Tracks, params: PursuitParams) -> tuple[Tracks, bool]:
    """Cuts an episode off after its first catch, and returns whether there was one."""
    caught = np.linalg.norm(positions[:, 1] - positions[:, 0], axis=-1) <= params.catch_radius
    return (positions[: caught.argmax() + 1], True) if caught.any() else (positions, False)


def _draw_arena(params: PursuitParams) -> "tuple[Figure, Axes]":
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    figure, axes = plt.subplots(figsize=(6.0, 6.6), layout="constrained")
    half, margin = params.half_width, 0.06 * params.half_width
    axes.add_patch(Rectangle((-half, -half), 2 * half, 2 * half, fill=False, lw=2.5))
    axes.set(
        xlim=(-half - margin, half + margin),
        ylim=(-half - margin, half + margin),
        aspect="equal",
        xlabel="x (m)",
        ylabel="y (m)",
    )
    axes.spines[:].set_visible(False)
    return figure, axes


def _draw_legend(axes: "Axes") -> None:
    legend = axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=4, frameon=False)
    for handle in filter(None, legend.legend_handles):
        handle.set(markersize=9)


def _add_trails(axes: "Axes") -> "list[LineCollection]":
    from matplotlib.collections import LineCollection

    trails = [LineCollection([], linewidths=2.5, capstyle="round") for _ in ROLES]
    for trail in trails:
        axes.add_collection(trail)
    return trails


def _set_trail(trail: "LineCollection", track: Track, colour: str, faintest: float) -> None:
    """Draws a track of shape (time, 2) from a tint `faintest` of the colour to the full colour."""
    from matplotlib.colors import to_rgb

    segments = np.stack([track[:-1], track[1:]], axis=1)
    strengths = np.linspace(faintest, 1.0, len(segments))
    tints = 1.0 - np.outer(strengths, 1.0 - np.array(to_rgb(colour)))
    trail.set_segments(list(segments))
    trail.set_color([tuple(tint) for tint in tints])


def _save_and_close(figure: "Figure", path: str | Path) -> None:
    import matplotlib.pyplot as plt

    figure.savefig(path, dpi=150)
    plt.close(figure)
