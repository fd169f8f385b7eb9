"""Losses that are means over samples."""

import jax.numpy as jnp
import numpy as np

from jaxagents import IPPO, PPO, REINFORCE, mean_over_samples
from jaxagents.learners.losses import as_mean


class Owner:
    @mean_over_samples(of=lambda x, weight: (x, weight / weight.mean()))
    def loss(self, training, x, weight, hyperparams):
        """What it says."""
        return hyperparams * (weight * (x - training) ** 2).mean()

    @mean_over_samples
    def plain(self, training, x, hyperparams):
        return hyperparams * (x - training).mean()


X, WEIGHT = jnp.arange(6.0), jnp.arange(1.0, 7.0)


def test_a_marked_loss_is_called_as_it_was_written():
    expected = 3 * np.mean(np.array(WEIGHT / 3.5) * (np.array(X) - 2) ** 2)
    np.testing.assert_allclose(Owner().loss(2.0, X, WEIGHT, 3.0), expected, rtol=1e-6)
    assert Owner.loss.__doc__ == "What it says."
    np.testing.assert_allclose(Owner().plain(2.0, X, 3.0), 3 * (2.5 - 2), rtol=1e-6)


def test_the_mean_of_its_parts_is_the_loss_of_the_whole():
    of, loss = as_mean(Owner.loss)
    prepared = of(X, WEIGHT)
    parts = [loss(Owner(), 2.0, *(x[i : i + 2] for x in prepared), 3.0) for i in (0, 2, 4)]
    np.testing.assert_allclose(np.mean(parts), Owner().loss(2.0, X, WEIGHT, 3.0), rtol=1e-6)


def test_losses_of_the_library_are_marked_and_those_of_subclasses_are_not():
    class Own(PPO):
        def _actor_loss(self, *inputs):
            return super()._actor_loss(*inputs)

    for agent in (PPO, IPPO, REINFORCE):
        assert as_mean(agent._actor_loss)
        assert as_mean(agent._critic_loss)
    assert as_mean(Own._actor_loss) is None
    assert as_mean(Own._critic_loss)
