"""Mistakes with meshes of devices."""

import jax
import numpy as np
from jax.sharding import Mesh

from jaxagents import bc
from jaxagents.sharding import make_mesh, shard_batch
from mistakes.entries import Theme
from mistakes.things import agent, hyperparams, key, make_bc, make_ppo

mistake = Theme("Meshes")


def train(agent, mesh):
    agent.train(key(), hyperparams(), progress=False, mesh=mesh)


@mistake(
    TypeError, r"mesh must be a jax\.sharding\.Mesh, such as jaxagents\.sharding\.make_mesh\(\), g"
)
def number_for_a_mesh():
    """A number of devices for a mesh."""
    train(agent(), 4)


@mistake(ValueError, r"The mesh has no axis 'data'; it has \['members'\]")
def axis_of_another_name():
    """A mesh without the axis `"data"`."""
    train(agent(), Mesh(np.array(jax.devices()[:2]), ("members",)))


@mistake(ValueError, r"batch_size must be a multiple of the 8 devices .*, got 4; 8 would do")
def too_few_environments():
    """Fewer environments than devices."""
    train(make_ppo(n_groups=4), make_mesh(8))


@mistake(ValueError, r"n_groups must be a multiple of the 2 devices .*, got 1; 2 would do")
def too_few_groups():
    """Fewer groups than devices."""
    train(agent(), make_mesh(2))


@mistake(
    ValueError, r"minibatch_size must be a multiple of the 3 devices .*, got 8; 6 or 9 would do"
)
def uneven_minibatch():
    """An offline agent whose minibatch the devices cannot share."""
    make_bc().train(key(), bc.HyperParameters(), progress=False, mesh=make_mesh(3))


@mistake(ValueError, r"A mesh can have 1 to 8 devices here, got 99\. More CPU devices")
def too_many_devices():
    """More devices than there are."""
    make_mesh(99)


@mistake(ValueError, r"'observations/x' is a scalar, but needs a leading axis of samples")
def scalar_to_split():
    """A scalar to be split over devices."""
    shard_batch({"observations": {"x": 1.0}})


@mistake(
    ValueError, r"'rewards' has 9 samples, which 8 devices cannot share equally; 8 or 16 would"
)
def uneven_batch():
    """A batch that the devices cannot share equally."""
    shard_batch({"rewards": np.zeros(9)})
