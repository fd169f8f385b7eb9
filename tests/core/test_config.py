"""Configurations and hyperparameters: names, ranges, equality."""

import dataclasses
import functools
import importlib
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from jaxagents import bc, ppo, pqn, sac
from jaxagents.catalogue import CATALOGUE
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams


class Network(nn.Module):
    config: AgentConfig

    def __call__(self, x):
        return x


# Names, types and sizes that are refused are in `tests/mistakes`.


def test_refuses_traced_values_within_a_partial():
    with pytest.raises(TypeError, match=r"AgentConfig.optimizer is traced"):
        jax.vmap(lambda b1: AgentConfig(optimizer=functools.partial(optax.adam, b1=b1)).n_steps)(
            jnp.ones(2)
        )


def test_types_of_fields_may_be_strings():
    """As they are in modules that import annotations from the future."""

    @dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
    class Own(pqn.AgentConfig):
        n_evals: "int | None" = None
        memory: "str | None" = None

    assert Own().n_evals is None
    with pytest.raises(ValueError, match=r"Own\.memory must be None or one of .* got 'rnn'"):
        Own(memory="rnn")


def test_compares_and_hashes_by_value():
    def config(seed=0, b1=0.9):
        return AgentConfig(
            eval_rng=jax.random.PRNGKey(seed),
            actor_network=Network,
            optimizer=functools.partial(optax.adam, b1=b1),
        )

    assert config() == config()
    assert hash(config()) == hash(config())
    assert AgentConfig(n_steps=np.int64(3)) == AgentConfig(n_steps=3)
    assert AgentConfig(eval_rng=1) == AgentConfig(eval_rng=jax.random.key(1)) != AgentConfig()
    assert config() != config(seed=1)
    assert config() != config(b1=0.8)
    assert Network(config()) == Network(config())
    assert hash(Network(config())) == hash(Network(config()))
    assert config().replace(n_steps=7).n_steps == 7

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class WithoutEqFalse(AgentConfig):
        weights: np.ndarray = dataclasses.field(default_factory=lambda: np.arange(2.0))

    assert WithoutEqFalse() == WithoutEqFalse() != WithoutEqFalse(weights=np.zeros(2))
    assert hash(WithoutEqFalse()) == hash(WithoutEqFalse())


def test_hyperparameters_may_be_arrays_and_are_checked_whole():
    HyperParameters(gamma=jnp.array([0.0, 0.5, 1.0])).check_ranges()
    with pytest.raises(ValueError, match=r"gamma must lie in \[0, 1\]"):
        HyperParameters(gamma=jnp.array([0.5, 1.5])).check_ranges()
    with pytest.raises(ValueError, match=r"critic_optimizer_params.eps must lie in"):
        HyperParameters(critic_optimizer_params=OptimizerParams(eps=-1.0)).check_ranges()


@pytest.mark.parametrize(
    ("module", "fields", "own"),
    [
        (ppo, {"n_updates": 7, "n_envs": 4}, {"n_steps": 7, "batch_size": 4}),
        (ppo, {"total_timesteps": 1_000_000}, {"n_steps": 489}),
        (sac, {"n_envs": 4, "total_timesteps": 41}, {"batch_size": 4, "n_steps": 11}),
        (pqn, {"total_timesteps": 4096, "n_envs": 16}, {"batch_size": 16, "n_steps": 4}),
        (bc, {"n_updates": 3}, {"n_steps": 3}),
    ],
)
def test_other_names_stand_for_fields(module, fields, own):
    config, same = module.AgentConfig(**fields), module.AgentConfig(**own)
    assert config == same
    assert hash(config) == hash(same)
    assert config.computation() == same.computation()
    assert module.AgentConfig().replace(**fields) == same
    assert dataclasses.replace(module.AgentConfig(), **fields) == same
    assert pickle.loads(pickle.dumps(config)) == same
    assert config.n_updates == config.n_steps
    assert config.n_envs == config.batch_size
    assert config.total_timesteps == config.n_steps * config.steps_per_update


def test_sizes_that_are_replaced_leave_the_number_of_updates():
    config = AgentConfig(n_envs=4, rollout_length=8, total_timesteps=64)
    for other in (config.replace(n_envs=8), dataclasses.replace(config, batch_size=8)):
        assert (other.n_updates, other.n_envs, other.total_timesteps) == (2, 8, 128)
    assert config.replace(n_envs=8, total_timesteps=65).n_updates == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"total_timesteps": 0}, "AgentConfig.total_timesteps must be a positive integer, got 0"),
        ({"total_timesteps": 9, "n_envs": -1}, "AgentConfig.n_envs must be a positive integer"),
    ],
)
def test_refuses_sizes_that_contradict_each_other(fields, message):
    for make in (AgentConfig, AgentConfig().replace):
        with pytest.raises(ValueError, match=message):
            make(**fields)


def test_a_field_of_a_subclass_may_have_one_of_the_other_names():
    @dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
    class Own(AgentConfig):
        n_envs: int = 3

    assert (Own().n_envs, Own().batch_size) == (3, 16)
    assert Own(n_envs=5, n_updates=2).replace(n_steps=4).n_envs == 5


@pytest.mark.parametrize(
    ("config", "amount"),
    [
        (ppo.AgentConfig(), "300 updates x 2,048 steps = 614,400 environment steps"),
        (
            sac.AgentConfig(gradient_steps=2),
            "300 updates x 8 steps = 2,400 environment steps and 600 gradient steps",
        ),
        (bc.AgentConfig(), "300 updates x 1 gradient step = 300 gradient steps"),
    ],
)
def test_an_amount_is_told_in_words(config, amount):
    assert config.amount(300) == amount


def test_every_algorithm_names_its_types_alike():
    for entry in CATALOGUE.values():
        module = importlib.import_module(f"jaxagents.{entry.module}")
        agent = getattr(module, entry.agent)
        assert agent._config_type is module.AgentConfig
        assert agent._hyperparams_type is module.HyperParameters


def test_a_default_that_is_replaced_keeps_its_check():
    @dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
    class Own(AgentConfig):
        rollout_length: int = 5

    with pytest.raises(ValueError, match=r"Own\.rollout_length must be a positive integer, got 0"):
        Own(rollout_length=0)
