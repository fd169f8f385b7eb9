"""The catalogue of agents, and the presets."""

import gymnax
import jax
import pytest

import jaxagents
from jaxagents.agents.config import annealed
from jaxagents.catalogue import CATALOGUE, PRESETS
from jaxagents.presets import preset, preset_names


def test_the_catalogue_holds_every_agent():
    bases = {"Agent"} | {name for name in jaxagents.__all__ if name.endswith(("Base", "Learner"))}
    agents = {
        name
        for name in set(jaxagents.__all__) - bases
        if hasattr(getattr(jaxagents, name), "train") and hasattr(getattr(jaxagents, name), "sweep")
    }
    assert {entry.agent for entry in CATALOGUE.values()} == agents
    for name, entry in CATALOGUE.items():
        agent, config, hyperparams = entry.types()
        assert agent is getattr(jaxagents, name.upper())
        assert isinstance(hyperparams(), agent._hyperparams_type)
        assert isinstance(config(), agent._config_type)


def test_presets_fit_their_agents():
    for name in preset_names():
        chosen = preset(name)
        assert chosen.env in gymnax.registered_envs
        assert type(chosen.config) is chosen.agent._config_type
        assert type(chosen.hyperparams) is chosen.agent._hyperparams_type
        chosen.hyperparams.check_ranges()
        if chosen.anneals:
            assert annealed(chosen.config) == chosen.config


def test_every_agent_of_one_actor_has_a_preset():
    assert {settings.agent for settings in PRESETS.values()} == CATALOGUE.keys() - {"ippo", "mappo"}


@pytest.mark.parametrize("name", ["td3-mountaincarcontinuous", "c51-breakout", "rnd-deepsea"])
def test_presets_make_agents(name):
    chosen = preset(name)
    agent = chosen.agent(*gymnax.make(chosen.env), chosen.config)
    jax.eval_shape(agent.start, jax.random.key(0), chosen.hyperparams)


def test_presets_may_have_schedules():
    chosen = preset("pqn-cartpole")
    assert chosen.hyperparams.epsilon == jaxagents.LinearSchedule(1.0, 0.05, 25)
    assert chosen.hyperparams.critic_learning_rate.n_steps == chosen.config.n_steps


def test_the_rate_falls_over_all_gradient_steps():
    for config, steps in (
        (jaxagents.ppo.AgentConfig(n_steps=10, batch_size=16, minibatch_size=4), 10 * 4 * 4),
        (jaxagents.reinforce.AgentConfig(n_steps=10, critic_epochs=4), 10 * 4),
        (jaxagents.sac.AgentConfig(n_steps=10, gradient_steps=2), 10 * 2),
    ):
        assert annealed(config).optimizer.keywords == {"n_gradient_steps": steps}
    with pytest.raises(TypeError, match="takes the configuration of an agent"):
        annealed(None)
