"""Runners, learners and statistics have a short `repr`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from jaxagents import TrainState
from jaxagents.core.metrics import MetricDict, MetricStats, RunResult
from jaxagents.core.summary import Summarised, in_a_line
from jaxagents.engine.sweep import SweepResult


def test_a_state_is_shown_by_the_sizes_of_its_parts():
    network = nn.Dense(3)
    variables = network.init(jax.random.key(0), jnp.zeros(2))
    state = TrainState.from_variables(network, variables)
    assert (
        repr(state)
        == "TrainState\n  step       0\n  params     dict of 2 arrays, 9 numbers\n  model_def  Dense"
    )
    assert "<tr><th>params</th><td>dict of 2 arrays, 9 numbers</td></tr>" in state._repr_html_()


def test_a_dataclass_may_have_a_repr_of_its_own():
    class Named(TrainState):
        def __repr__(self):
            return "named"

    assert repr(Named.create(nn.Dense(1), {})) == "named"


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (3, "3"),
        (jnp.float32(0.12345), "0.1235"),
        (np.int32(7), "7"),
        (jnp.zeros((2, 3)), "float32[2, 3]"),
        (jax.random.key(0), "key<fry>[]"),
        ({"loss": jnp.float32(2.0), "kl": jnp.float32(0.5)}, "loss 2, kl 0.5"),
        ([jnp.zeros(2)], "list of 1 array, 2 numbers"),
        (nn.relu, "custom_jvp"),
    ],
)
def test_a_value_in_a_line(x, text):
    assert in_a_line(x) == text


def test_numbers_that_are_traced_or_deleted_are_shown_by_shape():
    texts = []
    jax.eval_shape(lambda x: texts.append(in_a_line(x)), jnp.float32(1.0))
    assert texts == ["float32[]"]
    gone = jnp.arange(1)[0]
    gone.delete()
    assert in_a_line(gone) == "int32[]"


def test_statistics_are_short():
    assert len(repr(MetricStats.of(np.zeros((50, 32))))) < 400
    assert issubclass(MetricStats, Summarised)


def test_a_run_is_shown_by_its_last_metrics():
    metrics = {"update_step": np.array([0, 5]), "returns": np.array([[1.0, 3.0], [4.0, 8.0]])}
    result = RunResult.of(jnp.zeros(3), metrics)
    assert repr(result).splitlines() == [
        "RunResult",
        "  runner       float32[3]",
        "  update_step  int64[2], last 5",
        "  returns      float64[2, 2], last 6",
    ]
    assert "<tr><th>returns</th><td>float64[2, 2], last 6</td></tr>" in result._repr_html_()
    runner, unpacked = result
    assert runner is result.runner
    assert unpacked == metrics
    assert repr(unpacked) == repr(result).replace(
        "RunResult\n  runner       float32[3]", "MetricDict"
    )


def test_metrics_of_episodes_and_of_several_runs_are_short():
    episodes = MetricDict(returns=np.array([1.0, 3.0]), lengths=np.array([7, 8]))
    assert repr(episodes) == (
        "MetricDict\n  returns  float64[2], mean 2\n  lengths  int64[2], mean 7.5"
    )
    assert "<td>float64[2], mean 2</td>" in episodes._repr_html_()
    on_device = MetricDict(jax.tree.map(jnp.float32, dict(episodes)))
    assert "\n  lengths  float32[2], mean 7.5" in repr(on_device)
    traced = []
    jax.eval_shape(lambda metrics: traced.append(repr(metrics)), on_device)
    assert "mean" not in traced[0]
    runs = MetricDict(update_step=np.zeros((3, 2)), returns=np.zeros((3, 2, 4)))
    assert repr(runs).splitlines()[1:] == [
        "  update_step  float64[3, 2]",
        "  returns      float64[3, 2, 4]",
    ]


def test_metrics_are_a_pytree_as_any_dict():
    metrics = MetricDict(returns=np.arange(3), lengths=np.ones(2))
    doubled = jax.tree.map(lambda x: 2 * x, metrics)
    assert type(doubled) is MetricDict
    assert doubled["returns"].tolist() == [0, 2, 4]
    paths, plain = (jax.tree.leaves_with_path(x) for x in (metrics, dict(metrics)))
    assert [path for path, _ in paths] == [path for path, _ in plain]
    assert jax.tree.structure(metrics) == jax.tree.structure(
        MetricDict(lengths=np.ones(2), returns=np.arange(3))
    )
    assert jax.jit(lambda x: x)(metrics).keys() == metrics.keys()


def test_a_sweep_is_shown_by_shapes():
    result = SweepResult(jnp.zeros((2, 3)), MetricDict(returns=jnp.zeros((2, 3, 5))), 1, None)
    assert (
        repr(result) == "SweepResult\n  runners  float32[2, 3]\n"
        "  metrics  MetricDict of 1 array, 30 numbers\n  best     1"
    )
    assert "<tr><th>best</th><td>1</td></tr>" in result._repr_html_()
