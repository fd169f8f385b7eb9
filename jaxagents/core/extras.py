"""Optional libraries, and the supported environment suites."""

import importlib
import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution, version
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from jaxagents.core.names import nearest


def require(module: str, extra: str) -> Any:
    """Imports an optional library.

    Args:
        module: Name of the module.
        extra: The extra that installs it.

    Returns:
        The module.

    Raises:
        ImportError: It is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise ImportError(
            f"{library} is not installed: {pip_install(extra)} installs it."
        ) from error


def pip_install(extra: str) -> str:
    """The command that installs an extra, from wherever this copy of jaxagents was installed."""
    named = f"jaxagents[{extra}]"
    try:
        origin = json.loads(distribution("jaxagents").read_text("direct_url.json") or "null")
    except PackageNotFoundError:  # imported from a folder where it is not installed
        origin = None
    if origin is None:
        return f'pip install "{named}"'
    url = origin["url"]
    if "dir_info" not in origin:
        kind = f"{origin['vcs_info']['vcs']}+" if "vcs_info" in origin else ""
        return f'pip install "{named} @ {kind}{url}"'
    editable = "-e " if origin["dir_info"].get("editable") else ""
    return f'pip install {editable}"{url2pathname(urlsplit(url).path)}[{extra}]"'


class Suite(NamedTuple):
    """A suite of environments.

    Attributes:
        adapter: Class of the adapter, in the module of `jaxagents.envs.adapters` with the suite's name.
        bases: Base classes of its environments, with their modules.
        about: The environments in a few words.
    """

    adapter: str
    bases: tuple[str, ...]
    about: str


GYMNASIUM = "gymnasium"
"""The one suite that is installed with jaxagents."""
SUITES = {
    "brax": Suite("Brax", ("brax.envs.base.Env",), "robots"),
    "pgx": Suite("Pgx", ("pgx.core.Env",), "board and card games"),
    "jumanji": Suite("Jumanji", ("jumanji.env.Environment",), "puzzles, packing, routing"),
    "craftax": Suite(
        "Craftax",
        (
            "craftax.environment_base.environment_bases.EnvironmentAutoReset",
            "craftax.environment_base.environment_bases.EnvironmentNoAutoReset",
        ),
        "an open world to survive in",
    ),
    "jaxmarl": Suite(
        "JaxMARL",
        ("jaxmarl.environments.multi_agent_env.MultiAgentEnv",),
        "several actors",
    ),
    "navix": Suite("Navix", ("navix.environments.environment.Environment",), "MiniGrid"),
    "xminigrid": Suite("XMiniGrid", ("xminigrid.environment.Environment",), "XLand-MiniGrid"),
    "playground": Suite(
        "Playground", ("mujoco_playground._src.mjx_env.MjxEnv",), "robots in MuJoCo"
    ),
    "pettingzoo": Suite(
        "PettingZoo",
        ("pettingzoo.utils.env.ParallelEnv", "pettingzoo.utils.env.AECEnv"),
        "several actors, on the host",
    ),
    GYMNASIUM: Suite(
        "Gymnasium",
        ("gymnasium.core.Env", "gymnasium.vector.vector_env.VectorEnv"),
        "many environments, on the host",
    ),
}
"""Suites by their name in `pip install`, in our extras, and before a colon."""


def is_installed(suite: str) -> bool:
    """Whether a suite is installed."""
    try:
        version(suite)
    except PackageNotFoundError:
        return False
    return True


def check_installed(suite: str) -> None:
    """Raises if a suite is not installed.

    Args:
        suite: Its name.

    Raises:
        ImportError: It is not installed; the message says how to install it.
    """
    if not is_installed(suite):
        raise ImportError(f"{suite} is not installed: {pip_install(suite)} installs it.")


def likely_environment(name: str, of_gymnax: Sequence[str]) -> str:
    """Suggests the gymnax or Gymnasium environment with the most similar name.

    Args:
        name: The unknown name. Gymnasium is only imported if no gymnax name starts with it.
        of_gymnax: The gymnax names.

    Returns:
        A question, or all gymnax names if none is similar.
    """
    if name.startswith("ALE/"):
        return f"Did you mean '{GYMNASIUM}:ale_py:{name}'?"
    begun = any(known.lower().startswith(name.lower()) for known in of_gymnax)
    found = not begun and is_installed(GYMNASIUM)
    registered = importlib.import_module(GYMNASIUM).registry if found else ()
    near = nearest(name, [*registered, *of_gymnax])
    if near is None:
        return f"There are: {', '.join(of_gymnax)}."
    return f"Did you mean '{'' if near in of_gymnax else GYMNASIUM + ':'}{near}'?"
