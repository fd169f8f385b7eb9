"""The API reference: constructors with the types of each agent, and settings as tables."""

import re
from pathlib import Path

import pytest
import yaml

import jaxagents

griffe = pytest.importorskip("griffe", reason="the documentation's extra is not installed")
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def read():
    """The package as the reference sees it."""
    extension = str(ROOT / "docs" / "extensions" / "reference.py")
    return griffe.load(
        "jaxagents",
        search_paths=[ROOT],
        docstring_parser="google",
        extensions=griffe.load_extensions(extension),
    )


def last_table(thing):
    """The rows of the last table of a docstring, without titles, by their first cell."""
    lines = thing.docstring.parsed[-1].value.splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")][2:]
    return {name.strip("`"): cells for name, *cells in rows}


def test_hyperparameters_have_their_defaults_and_intervals(read):
    rows = last_table(read["ppo.HyperParameters"])
    assert rows["gamma"] == ["`0.99`", "[0,\N{NO-BREAK SPACE}1]", "Discount."]
    assert rows["kl_threshold"][:2] == ["∞", "[0,\N{NO-BREAK SPACE}∞]"]
    assert rows["actor_optimizer_params"][0] == "`OptimizerParams()`"


def test_configurations_have_the_fields_of_their_bases(read):
    rows = last_table(read["ppo.AgentConfig"])
    assert rows["optimizer"][0] == "`optax.adam`"
    assert rows["actor_epochs"] == ["`4`", "Passes over the samples for the actor."]
    assert rows["checkpoint_dir"][0] == "`None`"


def test_what_is_returned_is_one_thing_however_long_its_text(read):
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    options = yaml.safe_load(re.search(r"docstring_options:\n(?: +)(.*)", site)[1])
    sections = read["agents.agent.Agent.train"].docstring.parse("google", **options)
    (returned,) = next(section.value for section in sections if section.kind.value == "returns")
    assert str(returned.annotation) == "RunResult[RunnerT]"


@pytest.mark.parametrize(
    ("function", "parameter", "shown"),
    [
        ("generalised_advantages", "rewards", "Float[Array, 'time *batch']"),
        ("gae_step", "reward", "Float[Array, '*batch']"),
    ],
)
def test_shapes_have_their_quotes(read, function, parameter, shown):
    assert str(read[f"ops.returns.{function}"].parameters[parameter].annotation) == shown


AGENTS = [
    name
    for name in jaxagents.__all__
    if isinstance(getattr(jaxagents, name), type)
    and issubclass(getattr(jaxagents, name), jaxagents.Agent)
    and not name.endswith("Base")
    and name != "Agent"
]


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_has_its_own_constructor_and_lists_what_its_users_call(read, name):
    kind = getattr(jaxagents, name)
    shown = read[f"{kind.__module__.removeprefix('jaxagents.')}.{name}"]
    config = shown.members["__init__"].parameters["config"].annotation
    assert config.canonical_path == f"{kind._config_type.__module__}.{kind._config_type.__name__}"
    assert f"class {name}(" in shown.members["__init__"].source
    for method in ("train", "eval", "restore", "sweep", "render_episode"):
        assert f"`{method}`" in shown.docstring.parsed[-1].value


def test_agents_list_training_evaluation_and_restoring_first(read):
    assert list(last_table(read["ppo.PPO"]))[:3] == [
        f"[`{method}`][jaxagents.agents.agent.Agent.{method}]"
        for method in ("train", "eval", "restore")
    ]
    page = (ROOT / "docs" / "api" / "core" / "agent.md").read_text(encoding="utf-8")
    assert re.findall(r"^ +- (\w+)$", page, re.MULTILINE)[:3] == ["train", "eval", "restore"]


def test_bases_list_the_hooks_where_they_are_defined(read):
    hooks = list(last_table(read["ppo.PPOBase"]))
    assert "[`_actor_loss`][jaxagents.ppo.PPOBase._actor_loss]" in hooks
    assert "[`_critic_loss`][jaxagents.agents.on_policy.OnPolicyBase._critic_loss]" in hooks
    assert "[`_epsilon`][jaxagents.dqn.DQNBase._epsilon]" in last_table(read["dqn.DQNBase"])


def test_signatures_of_settings_have_plain_defaults(read):
    config = read["ppo.AgentConfig"].members["__init__"].parameters
    assert config["n_steps"].default == "200"  # and not checked(200, positive)
    assert (
        read["ppo.HyperParameters"].members["__init__"].parameters["kl_threshold"].default == "inf"
    )


def test_signatures_of_settings_have_the_types_of_fields_rather_than_of_class_variables(read):
    config = read["cql.AgentConfig"].members["__init__"].parameters
    assert str(config["actor_network"].annotation) == "nn.Module | None"


def test_configurations_that_agents_share_show_their_own_fields(read):
    assert "n_steps" in last_table(read["agents.config.Config"])
    assert "n_steps" not in last_table(read["agents.config.OnPolicyConfig"])
