"""Verifying the records of a training."""

import os

from jaxagents.checkpoints.records import AgentStore, SweepStore


def verify(checkpoint_dir: str | os.PathLike) -> dict[int, str | None]:
    """Reads every checkpoint of a training, and compares it with the digests that were written with it.

    ```python
    outcomes = verify("runs/cartpole")
    damaged = {step: damage for step, damage in outcomes.items() if damage}
    ```

    Those that a training removes meanwhile are left out.

    Args:
        checkpoint_dir: Folder of the run of an agent, or of a sweep.

    Returns:
        By step: `None` where the checkpoint is whole, or what is wrong with it.

    Raises:
        FileNotFoundError: The folder holds no checkpoints.
    """
    stores = SweepStore(checkpoint_dir), AgentStore(checkpoint_dir)
    store = next((store for store in stores if store.holds(store.item)), stores[-1])
    store.warn_of_renamed()
    steps = store.steps()
    if not steps:
        raise FileNotFoundError(f"{store.directory} holds no checkpoints.")
    damages = {step: store.damage(step) for step in steps}
    kept = store.steps()
    outcomes = {
        step: damage and str(damage)
        for step, damage in damages.items()
        if damage is None or step in kept
    }
    return outcomes or verify(checkpoint_dir)  # if all were removed meanwhile
