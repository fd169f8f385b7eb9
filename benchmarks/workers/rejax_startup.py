"""Measures the startup time of a script that trains PPO with rejax."""

from collections.abc import Iterator

import startup
from tasks import TASKS


def start() -> Iterator[str]:
    """Trains for one update in 64 environments."""
    import rejax

    assert rejax.PPO
    yield "package"

    from rejax_ppo import Trainer

    yield "imports"
    trainer = Trainer(TASKS["CartPole-v1"], 64)
    yield "agent"
    trainer.train(0, 1)
    yield "update"


if __name__ == "__main__":
    startup.main("rejax", start)
