"""Fitting several networks."""

import functools
import itertools

import jax
import jax.numpy as jnp
import optax
import pytest
import trees
from flax import linen as nn

from jaxagents.learners import fit as fitting
from jaxagents.learners.fit import Fit, fit
from jaxagents.learners.optimizer import (
    OptimizerParams,
    SkipNotFinite,
    acts_on_each_number,
    trained_by,
)
from jaxagents.learners.train_state import TrainState

KEY = jax.random.key(0)
OBS = jax.random.normal(KEY, (6, 4, 3))  # time, environments, components
RNGS = jax.random.split(KEY, (4, 2))  # epochs, groups of environments
N_MINIBATCHES = 3


def network(n_outputs, n_epochs, kl=0.0, **fields):
    module = nn.Dense(n_outputs)
    training = TrainState.from_variables(module, trees.variables(module, OBS), optax.sgd(0.1))

    def loss(training, obs, targets):
        return (training(obs) - targets) ** 2, {"kl": jnp.float32(kl)}

    return Fit(training, loss, (OBS, jnp.sin(OBS[..., :n_outputs])), n_epochs, **fields)


def fitted(*networks):
    return jax.jit(lambda: fit(networks, RNGS, n_minibatches=N_MINIBATCHES))()


def test_several_networks_learn_what_each_does_alone():
    networks = [network(1, 1), network(2, 3)]
    alone = [fitted(one)[0] for one in networks]
    trees.assert_close(alone, fitted(*networks))
    assert [one.training.step for one in alone] == [N_MINIBATCHES, 3 * N_MINIBATCHES]


def test_a_network_stays_as_it_is_after_an_epoch_that_went_too_far():
    too_far, other = network(1, 3, kl=0.5, kl_threshold=0.4), network(2, 3, kl=0.5)
    stopped, other = fitted(too_far, other)
    trees.assert_close(stopped, fitted(network(1, 1, kl=0.5))[0])
    assert stopped.training.step == N_MINIBATCHES
    assert other.training.step == 3 * N_MINIBATCHES
    (at_threshold,) = fitted(too_far._replace(kl_threshold=0.5))
    assert at_threshold.training.step == 3 * N_MINIBATCHES


@pytest.mark.parametrize("optimizer", [optax.adam, SkipNotFinite(optax.adamw), optax.sgd])
def test_an_optimizer_with_all_parameters_in_one_array_does_the_same(optimizer, monkeypatch):
    """Also with another network whose optimizer keeps them separate, and with clipped gradients."""
    assert acts_on_each_number(optimizer)
    params = OptimizerParams(learning_rate=0.1, grad_clip=0.01)
    apart = [
        one._replace(training=trained_by(optimizer, one.training, params))
        for one in (network(1, 2), network(2, 3))
    ]
    expected = fitted(*apart)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    found = fitted(apart[0], apart[1]._replace(in_one_array=True))
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    trees.assert_close(found, expected)


def test_optimizers_that_look_at_several_parameters_have_them_apart():
    masked = functools.partial(optax.adamw, mask=lambda params: params)
    assert not any(map(acts_on_each_number, (optax.lamb, masked, lambda rate: optax.adam(rate))))


def test_every_epoch_mixes_all_samples_anew():
    seen = []

    def loss(training, samples):
        jax.debug.callback(lambda x: seen.append(x.tolist()), samples, ordered=True)
        return jnp.zeros(()) * training.params["kernel"].sum(), {}

    samples = jnp.arange(24).reshape(6, 4)
    fitted(network(1, 3)._replace(loss_fn=loss, inputs=(samples,)))
    jax.effects_barrier()
    epochs = [[*itertools.chain(*seen[i : i + 3])] for i in range(0, 9, 3)]
    assert len(seen) == 9
    assert all(sorted(epoch) == list(range(24)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def standardised(of_samples, obs, targets):
    return obs, targets - targets.mean()


def test_gradients_in_parts_are_those_of_the_whole(monkeypatch):
    def networks():
        sizes = []

        def loss(training, obs, targets):
            sizes.append(len(obs))
            return (training(obs) - targets) ** 2, {"kl": jnp.abs(targets)}

        def fit_of(n_outputs, n_epochs):
            return network(n_outputs, n_epochs)._replace(loss_fn=loss, prepare=standardised)

        found = fitted(*map(fit_of, (1, 2), (1, 2)))
        return found, set(sizes)

    whole, sizes = networks()
    assert sizes == {8}
    monkeypatch.setattr(fitting, "_SAMPLES_OF_A_PART", 3)
    in_parts, sizes = networks()
    assert sizes == {2, 8}  # of the whole only the shapes
    trees.assert_close(whole, in_parts)


def test_other_losses_are_given_whole_minibatches_and_do_the_same(monkeypatch):
    def loss_of_samples(training, obs, targets):
        assert len(obs) == 8
        return (training(obs) - targets) ** 2, {}

    def loss(*inputs):
        losses, info = loss_of_samples(*inputs)
        return losses.mean(), info

    monkeypatch.setattr(fitting, "_SAMPLES_OF_A_PART", 3)
    of_whole = fitted(*(network(2, 2)._replace(loss_fn=one) for one in (loss, loss_of_samples)))
    trees.assert_close(*of_whole)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    jax.eval_shape(lambda: fitted(network(2, 2)._replace(loss_fn=loss_of_samples)))
