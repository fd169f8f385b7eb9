import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxagents import (
    CosineSchedule,
    ExponentialSchedule,
    FunctionSchedule,
    LinearSchedule,
    PiecewiseSchedule,
    Schedule,
    c51,
    cql,
    ppo,
    sac,
)
from jaxagents.core.describe import describe, to_json
from jaxagents.core.grid import Grid

N = 10
STEPS = np.arange(N + 3)
POINTS = {"values": (0.0, 2.0, 1.0), "steps": (1, 3, 9)}


def linear(t):
    return 0.5 + (0.1 - 0.5) * min(t / N, 1.0)


def cosine(t):
    return 0.1 + 0.5 * (0.5 - 0.1) * (1.0 + np.cos(np.pi * min(t / N, 1.0)))


def exponential(t):
    return 0.5 * (0.1 / 0.5) ** min(t / N, 1.0)


def lines(t):
    return np.interp(t, POINTS["steps"], POINTS["values"])


def jumps(t):
    return [0.0, 0.0, 2.0, 1.0][sum(t >= step for step in POINTS["steps"])]


CASES = [
    (LinearSchedule(0.5, 0.1, N), linear),
    (CosineSchedule(0.5, 0.1, N), cosine),
    (ExponentialSchedule(0.5, 0.1, N), exponential),
    (PiecewiseSchedule(**POINTS), lines),
    (PiecewiseSchedule(**POINTS, interpolate=False), jumps),
    (FunctionSchedule(optax.linear_schedule(0.5, 0.1, N)), linear),
]


@pytest.mark.parametrize(("schedule", "expected"), CASES)
def test_schedules_follow_their_equations(schedule, expected):
    values = jax.jit(jax.vmap(schedule))(STEPS)
    np.testing.assert_allclose(values, [expected(t) for t in STEPS], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", [LinearSchedule, CosineSchedule, ExponentialSchedule])
def test_ends_are_exact(kind):
    schedule = kind(0.3, 0.1, 7)
    assert schedule(0) == np.float32(0.3)
    assert schedule(7) == schedule(100) == np.float32(0.1)


def test_numbers_of_schedules_are_vmapped():
    schedules = LinearSchedule(jnp.array([1.0, 2.0]), jnp.zeros(2), jnp.array([10.0, 20.0]))
    np.testing.assert_allclose(jax.vmap(lambda s: s(5))(schedules), [0.5, 1.5])
    first = jnp.array([0.0, 1.0])
    values = jax.vmap(lambda x: PiecewiseSchedule((x, 1.0), (0, 10))(5))(first)
    np.testing.assert_allclose(values, [0.5, 1.0])


def test_hyperparameters_of_an_update_are_numbers():
    optimizer = ppo.OptimizerParams(learning_rate=LinearSchedule(1.0, 0.0, 10))
    given = ppo.HyperParameters(eps_clip=lambda t: 0.1 * t, actor_optimizer_params=optimizer)
    assert isinstance(given.eps_clip, FunctionSchedule)
    now = given.at(5)
    assert (now.actor_optimizer_params.learning_rate, now.eps_clip) == (0.5, np.float32(0.5))
    assert now.gamma == given.gamma
    assert jax.tree.structure(now) == jax.tree.structure(ppo.HyperParameters())


def test_schedules_are_described():
    hyperparams = sac.HyperParameters(gamma=CosineSchedule(0.9, 0.99, 100))
    expected = {"schedule": "CosineSchedule", "initial": 0.9, "final": 0.99, "n_steps": 100}
    assert to_json(hyperparams)["gamma"] == expected
    assert "schedule: CosineSchedule" in describe("Hyperparameters", hyperparams)


class Constant(Schedule):
    value: float = 0.5

    def __call__(self, update_step):
        return jnp.float32(self.value)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (LinearSchedule(2.0, 0.5, 10), r"gamma\.initial must lie in \[0, 1\], got 2"),
        (Constant(-1.0), r"gamma\.value must lie in \[0, 1\], got -1"),
        (LinearSchedule(0.5, 1.0, 0), r"gamma\.n_steps must lie in \[1, inf\), got 0"),
        (ExponentialSchedule(0.5, 0.0, 9), r"gamma\.final of an ExponentialSchedule must lie"),
        (PiecewiseSchedule((0.5, 2.0), (0, 1)), r"gamma\.values\[1\] must lie in \[0, 1\], got 2"),
        (PiecewiseSchedule((0.5, 0.6), (3, 3)), r"gamma\.steps must increase, got \(3, 3\)"),
        (PiecewiseSchedule((0.5,), (0, 1)), r"which takes as many values as steps"),
        (lambda t: t + 2.0, r"gamma of the first update must lie in \[0, 1\], got 2"),
        (lambda t: jnp.ones(3), r"gamma of the first update is an array of shape \(3,\)"),
    ],
)
def test_schedules_out_of_range_are_refused(schedule, message):
    ppo.HyperParameters(gamma=Constant()).check_ranges()
    with pytest.raises(ValueError, match=message):
        ppo.HyperParameters(gamma=schedule).check_ranges()


def test_some_hyperparameters_are_constant():
    weight = LinearSchedule(1.0, 0.1, 10)
    for given, message in (
        (c51.HyperParameters(v_min=weight), "stays the same throughout a run"),
        (sac.HyperParameters(initial_temperature=weight), "stays the same throughout a run"),
        (
            cql.HyperParameters(conservative_weight=weight, target_action_gap=1.0),
            "is learned with a target_action_gap",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            given.check_ranges()


def test_sets_differ_by_the_kinds_of_their_schedules():
    kinds = (LinearSchedule, CosineSchedule)
    sets = [ppo.HyperParameters(gamma=kind(0.9, 0.99, 10)) for kind in kinds]
    linear, cosine = (Grid.of(jax.random.split(jax.random.key(0), 2), x) for x in sets)
    assert linear.difference(linear.notes()) is None
    difference = "its gamma.schedule is LinearSchedule, and this one's CosineSchedule"
    assert cosine.difference(linear.notes()) == difference


def test_one_training_takes_single_numbers():
    several = LinearSchedule(np.ones(3), 0.5, 10)
    with pytest.raises(ValueError, match=r"gamma\.initial is an array of shape \(3,\)"):
        ppo.HyperParameters(gamma=several).check_ranges(single=True)


def test_programs_tell_schedules_of_the_same_numbers_apart():
    class Halved(LinearSchedule):
        pass

    kinds = LinearSchedule, CosineSchedule, Halved
    structures = {jax.tree.structure(kind(0.5, 0.25, 8)) for kind in kinds}
    assert len(structures) == 3
    assert jax.tree.structure(LinearSchedule(1.0, 2.0, 3).replace(final=4.0)) in structures
