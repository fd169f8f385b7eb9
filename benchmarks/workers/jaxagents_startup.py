"""Measures the startup time of a script that trains PPO with jaxagents."""

from collections.abc import Iterator

import startup
from tasks import TASKS


def start() -> Iterator[str]:
    """Trains for one update in 64 environments."""
    import jaxagents

    assert jaxagents.__version__
    yield "package"

    from jaxagents_ppo import Trainer

    yield "imports"
    trainer = Trainer(TASKS["CartPole-v1"], 64)
    yield "agent"
    trainer.agent.train(0, trainer.hyperparams, n_steps=1, progress=False)
    yield "update"


if __name__ == "__main__":
    startup.main("jaxagents", start)
