"""Where a training plays: in an environment, in copies of one, or in a vector."""

import contextlib
import functools
from collections.abc import Iterator

import gymnasium
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from jaxagents.envs.on_host.making import checked, maker_of, specification_of, why_no_more
from jaxagents.host.episodes import GymnasiumEpisodes
from jaxagents.host.transitions import rescale_actions
from jaxagents.host.vector_episodes import VectorEpisodes


@contextlib.contextmanager
def opened(env: gymnasium.Env | VectorEnv, n_envs: int) -> Iterator[gymnasium.Env | VectorEnv]:
    """The environments of a training: those that were given, or copies, which are closed afterwards.

    Args:
        env: An environment, or a vector of them.
        n_envs: Number of environments to play in at once. That of a vector is its own.

    Yields:
        The environment, or a vector, with actions as
            [`rescale_actions`][jaxagents.host.rescale_actions] gives them.

    Raises:
        TypeError: It is neither.
        ValueError: It cannot be played in, or not in so many copies.
    """
    env = rescale_actions(env)
    if isinstance(env, VectorEnv):
        if n_envs not in (1, env.num_envs):
            raise ValueError(
                f"The vector has {env.num_envs} environments, but the configuration says "
                f"n_envs={n_envs}: leave n_envs out, since a vector brings its own number."
            )
        yield env
    elif n_envs == 1:
        yield env
    else:
        with contextlib.closing(_copies(env, n_envs)) as copies:
            yield copies


def _copies(env: gymnasium.Env, n_envs: int) -> VectorEnv:
    """Copies of an environment, which start no episodes by themselves."""
    make = maker_of(env)
    if make is None:
        raise ValueError(
            f"{why_no_more(env)}, so that no more can be made of it, but n_envs is {n_envs}. Pass a "
            "vector instead, such as gymnasium.vector.SyncVectorEnv([lambda: MyEnv()] * "
            f"{n_envs}, autoreset_mode=AutoresetMode.DISABLED)."
        )
    made = [functools.partial(checked, make)] * n_envs
    return SyncVectorEnv(made, autoreset_mode=AutoresetMode.DISABLED)


def episodes_of(env: gymnasium.Env | VectorEnv, seed: int) -> GymnasiumEpisodes | VectorEpisodes:
    """The episodes of a training, of which the first has begun.

    Args:
        env: What it plays in.
        seed: Its seed.

    Returns:
        The episodes.
    """
    if isinstance(env, VectorEnv):
        return VectorEpisodes(env, seed)
    return GymnasiumEpisodes(env, seed)


def name_of(env: gymnasium.Env | VectorEnv) -> str:
    """The name of an environment; that of copies, or of a vector, begins with their number."""
    one = env.unwrapped.envs[0] if isinstance(env.unwrapped, SyncVectorEnv) else env
    spec = specification_of(one)
    name = type(one.unwrapped).__qualname__ if spec is None else spec.id
    return f"{env.num_envs} x {name}" if isinstance(env, VectorEnv) else name
