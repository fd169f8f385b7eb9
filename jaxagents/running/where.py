"""Where the program of an agent runs."""

from typing import Any, cast

from jaxagents.running.host_trainable import PlaysOnHost
from jaxagents.running.on_host import OnHost
from jaxagents.running.programs import OnDevice
from jaxagents.running.trainable import Compilable, RunnerT


def program_of(agent: Compilable[RunnerT]) -> OnDevice[RunnerT] | OnHost[Any]:
    """The compiled program of an agent: whole, or around environments on the host."""
    if agent.episodes.env.on_host:
        return OnHost(cast(PlaysOnHost[Any], agent))
    return OnDevice(agent)
