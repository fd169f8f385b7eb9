"""Modules that `import jaxagents` imports."""

import pytest
from scripts import run_script

import jaxagents


def imported_after(statement, *modules):
    script = f"import sys\n{statement}\nprint(*(name for name in {modules} if name in sys.modules))"
    return run_script(script).split()


def test_nothing_is_imported_before_it_is_used():
    assert imported_after("import jaxagents", "jax", "flax", "numpy") == []


SLOW = "matplotlib", "seaborn", "pandas", "scipy", "IPython", "ipywidgets", "tqdm.notebook"
"""Modules that are slow to import, and that training does not need."""


def test_the_command_line_imports_little_before_a_command():
    statement = "from jaxagents.cli import training"
    assert imported_after(statement, "jax", "numpy", "gymnax", "gymnasium", *SLOW) == []


@pytest.mark.slow
def test_an_agent_of_a_name_imports_nothing_that_only_draws():
    statement = "import jaxagents; jaxagents.PPO('Pong-misc', None, jaxagents.ppo.AgentConfig())"
    assert imported_after(statement, "gymnax", *SLOW) == ["gymnax"]


@pytest.mark.slow
def test_an_environment_of_a_name_still_draws_with_the_true_modules():
    statement = """
import jaxagents
jaxagents.make("Pong-misc")
assert "matplotlib" not in sys.modules
import matplotlib.pyplot
from gymnax.environments.misc import pong
assert pong.plt.figure is matplotlib.pyplot.figure
assert pong.colors.ListedColormap is matplotlib.colors.ListedColormap
"""
    assert imported_after(statement, "matplotlib.pyplot") == ["matplotlib.pyplot"]


@pytest.mark.slow
def test_an_agent_imports_no_other_family():
    others = "jaxagents.cql", "gymnasium", "gymnax", "orbax.checkpoint", *SLOW
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
