"""Fingerprints: equal for equal values, and only for them."""

import dataclasses
import functools

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from jaxagents.core.fingerprint import fingerprint
from jaxagents.networks import CategoricalActor


class Plain:
    def __init__(self, x):
        self.x = x


@dataclasses.dataclass(frozen=True)
class Scaled:
    scale: dataclasses.InitVar[float]

    def __post_init__(self, scale):
        object.__setattr__(self, "_scale", scale)

    @functools.cached_property
    def doubled(self):
        return 2.0 * self._scale


def looked_at(scaled):
    assert scaled.doubled
    return scaled


class WithOwnEquality:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return self.x % 10 == other.x % 10

    def __hash__(self):
        return hash(self.x % 10)


class Holder:
    def __init__(self):
        self.itself = self


EQUAL = [
    (1, 1),
    (float("nan"), float("nan")),
    ({"a": {1, 2}}, {"a": {2, 1}}),
    (np.arange(3), np.arange(3)),
    (jnp.arange(3), jnp.arange(3)),
    (jax.random.key(1), jax.random.key(1)),
    (functools.partial(max, 1, key=abs), functools.partial(max, 1, key=abs)),
    (Plain([1, Plain(2)]), Plain([1, Plain(2)])),
    (Scaled(1.0), looked_at(Scaled(1.0))),
    (WithOwnEquality(3), WithOwnEquality(13)),
    (Holder(), Holder()),
    (CategoricalActor(2, (8,)), CategoricalActor(2, (8,))),
    (gymnax.make("CartPole-v1"), gymnax.make("CartPole-v1")),
    (Plain(1).__init__.__func__, Plain(2).__init__.__func__),
]

DIFFERENT = [
    (1, 1.0),
    (1, True),
    ([1], (1,)),
    (np.arange(3), np.arange(3.0)),
    (np.zeros((2, 3)), np.zeros((3, 2))),
    (jax.random.key(1), jax.random.key(2)),
    (functools.partial(max, 1), functools.partial(max, 2)),
    (Plain(1), Plain(2)),
    (Scaled(1.0), Scaled(2.0)),
    (WithOwnEquality(3), WithOwnEquality(4)),
    (CategoricalActor(2, (8,)), CategoricalActor(2, (8,), nn.relu)),
    (gymnax.make("CartPole-v1"), gymnax.make("Acrobot-v1")),
    (lambda x: x, lambda x: x),
    (object(), object()),
]


@pytest.mark.parametrize(("first", "second"), EQUAL, ids=lambda x: type(x).__name__)
def test_equal_values_have_equal_fingerprints(first, second):
    assert fingerprint(first) == fingerprint(second)
    assert hash(fingerprint(first)) == hash(fingerprint(second))


@pytest.mark.parametrize(("first", "second"), DIFFERENT, ids=lambda x: type(x).__name__)
def test_different_values_have_different_fingerprints(first, second):
    assert fingerprint(first) != fingerprint(second)
