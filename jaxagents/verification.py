"""Verifying the records of a training."""

import os

from jaxagents.checkpoints.records import AgentStore
from jaxagents.host.checkpoint import HostStore


def verify(checkpoint_dir: str | os.PathLike) -> dict[int, str | None]:
    """Reads every checkpoint of a training, and compares it with the digests that were written with it.

    ```python
    damaged = {step: damage for step, damage in verify("runs/cartpole").items() if damage}
    ```

    Args:
        checkpoint_dir: Folder of the training of an agent, or of one on the host.

    Returns:
        By step: `None` where the checkpoint is whole, or what is wrong with it.

    Raises:
        FileNotFoundError: The folder holds no checkpoints.
    """
    host = HostStore(checkpoint_dir)
    steps = host.steps()
    if not steps:
        raise FileNotFoundError(f"{host.directory} holds no checkpoints.")
    is_host = any((host.checkpoints / str(step) / host.item).exists() for step in steps)
    store = host if is_host else AgentStore(checkpoint_dir)
    damages = {step: store.damage(step) for step in steps}
    return {step: damage and str(damage) for step, damage in damages.items()}
