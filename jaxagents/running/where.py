"""Where the program of an agent runs."""

from typing import cast

from jaxagents.running.on_host import OnHost
from jaxagents.running.programs import OnDevice
from jaxagents.running.trainable import PlaysOnHost, RunnerT, Trainable


def program_of(agent: Trainable[RunnerT]) -> OnDevice[RunnerT] | OnHost[RunnerT]:
    """The compiled program of an agent: whole, or around environments on the host."""
    if agent.episodes.env.on_host:
        return OnHost(cast(PlaysOnHost[RunnerT], agent))
    return OnDevice(agent)
