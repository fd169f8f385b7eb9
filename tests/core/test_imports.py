"""Modules that `import jaxagents` imports."""

import pytest
from scripts import run_script

import jaxagents


def imported_after(statement, *modules):
    script = f"import sys\n{statement}\nprint(*(name for name in {modules} if name in sys.modules))"
    return run_script(script).split()


def test_nothing_is_imported_before_it_is_used():
    assert imported_after("import jaxagents", "jax", "flax", "numpy") == []


@pytest.mark.slow
def test_an_agent_imports_no_other_family():
    others = "jaxagents.cql", "gymnasium", "gymnax", "matplotlib", "orbax.checkpoint"
    found = imported_after("from jaxagents import PPO", "jaxagents.ppo", "jaxagents.dqn", *others)
    assert found == ["jaxagents.ppo"]
    assert imported_after("from jaxagents import DQN", "jaxagents.agents.on_policy") == []


def test_every_name_can_be_imported():
    for name in jaxagents.__all__:
        assert callable(getattr(jaxagents, name))
        assert name in dir(jaxagents)


def test_modules_are_attributes():
    assert jaxagents.sharding.make_mesh
    assert jaxagents.host.evaluate
