"""Environments by their names, and what is said of suites that are not installed."""

import tomllib
from pathlib import Path

import gymnax
import pytest

import jaxagents
from jaxagents import PPO
from jaxagents.cli.mistakes import MistakeError, check_environment
from jaxagents.core import extras
from jaxagents.core.extras import GYMNASIUM, SUITES, Suite
from jaxagents.envs import as_environment
from jaxagents.envs.adapters import Gymnax, native
from jaxagents.ppo import AgentConfig


def test_makes_environments_of_gymnax_which_hold_their_parameters():
    env = jaxagents.make("CartPole-v1")
    assert isinstance(env, Gymnax)
    assert env.params == gymnax.make("CartPole-v1")[1]
    assert jaxagents.make("gymnax:CartPole-v1").name == "CartPole-v1"


def test_agents_take_names():
    agent = PPO("CartPole-v1", None, AgentConfig())
    assert repr(agent) == "<PPO on CartPole-v1>"
    assert agent == PPO(jaxagents.make("CartPole-v1"), None, AgentConfig())
    params = gymnax.make("CartPole-v1")[1].replace(max_steps_in_episode=7)
    assert as_environment("CartPole-v1", params).max_steps == 7


def test_says_which_command_installs_a_suite(monkeypatch):
    monkeypatch.setattr(extras, "is_installed", lambda suite: False)
    with pytest.raises(ImportError, match=r'brax is not.*pip install "jaxagents\[brax\]"'):
        jaxagents.make("brax:ant")
    with pytest.raises(MistakeError, match=r'pip install "jaxagents\[pgx\]"'):
        check_environment("pgx:chess")


def test_tells_suites_apart_by_the_classes_that_environments_inherit_from(monkeypatch):
    class Base:
        pass

    class Own(Base):
        pass

    assert native.adapter_of(Own()) is None
    suite = Suite("Adapter", (f"{__name__}.{Base.__qualname__}",), "")
    monkeypatch.setitem(SUITES, "own", suite)
    monkeypatch.setattr(native, "adapter_named", {"own": native.Native}.get)
    assert native.adapter_of(Own()) is native.Native


def test_every_suite_has_an_extra_of_its_own():
    project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())
    assert {*SUITES, "envs"} - {GYMNASIUM} <= set(project["project"]["optional-dependencies"])
