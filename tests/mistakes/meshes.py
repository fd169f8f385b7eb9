"""Mistakes with meshes of devices."""

import jax
import numpy as np
from jax.sharding import Mesh

from jaxagents.sharding import make_mesh, shard_batch
from mistakes.things import make_bc, make_ppo, train

MISTAKES = {
    "A number of devices for a mesh": lambda: train(mesh=4),
    'A mesh without the axis `"data"`': lambda: train(
        mesh=Mesh(np.array(jax.devices()[:2]), ("members",))
    ),
    "Fewer environments than devices": lambda: train(make_ppo(n_groups=4), mesh=make_mesh(8)),
    "Fewer groups than devices": lambda: train(mesh=make_mesh(2)),
    "An offline agent whose minibatch the devices cannot share": lambda: train(
        make_bc(), mesh=make_mesh(3)
    ),
    "More devices than there are": lambda: make_mesh(99),
    "A scalar to be split over devices": lambda: shard_batch({"observations": {"x": 1.0}}),
    "A batch that the devices cannot share equally": lambda: shard_batch({"rewards": np.zeros(9)}),
}
