"""Agents in environments on the host: Gymnasium, vector environments and PettingZoo."""

from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium_probes import Masked, Steered, Walk, Walks
from parallel_probes import Relay

import jaxagents
from jaxagents import A2C, BC, DQN, IPPO, MAPPO, PPO, SAC, a2c, bc, dqn, ippo, load_policy, ppo, sac
from jaxagents.data import Dataset
from jaxagents.engine.host_play import terms_of
from jaxagents.engine.observers import NotFiniteError
from jaxagents.envs import Gymnasium, PettingZoo, as_environment
from jaxagents.envs.episodes import Episodes
from jaxagents.networks import CategoricalActor, MinGRUCell, PerActor, StateCritic, WithMemory
from jaxagents.sharding import make_mesh

pytestmark = pytest.mark.filterwarnings("ignore:final_info and summed_info name 'seldom'")

KEY = jax.random.key(0)
RATE = ppo.OptimizerParams(learning_rate=0.02)
BUFFER = {"batch_size": 2, "n_evals": 4, "minibatch_size": 32, "learning_starts": 8}
ON_POLICY = {
    "batch_size": 4,
    "rollout_length": 8,
    "n_evals": 6,
    "n_steps": 40,
    "eval_frequency": 40,
}
NETWORKS = {
    "actor_network": CategoricalActor(2, features=(8,)),
    "critic_network": StateCritic(features=(8,)),
}
ACTORS = {
    "n_steps": 12,
    "eval_frequency": 12,
    "actor_network": PerActor(CategoricalActor(3, features=(8,)), 2),
    "critic_network": PerActor(NETWORKS["critic_network"], 2),
}
REMEMBERING = {
    "actor_network": WithMemory(CategoricalActor(2, features=()), MinGRUCell(4)),
    "critic_network": WithMemory(StateCritic(features=()), MinGRUCell(4)),
}
STATISTICS = {"normalise_observations": True, "normalise_rewards": True}
INFOS = {"summed_info": ("action",), "final_info": ("won", "seldom")}
RATES = ("actor_learning_rate", "critic_learning_rate", "temperature_learning_rate")


class Case(NamedTuple):
    """An agent that learns to take the rewarded action."""

    agent: Any
    env: Any
    config: Any
    hyperparams: Any
    after: int = 0
    """Updates before an interruption."""

    def make(self, env=None, evaluated=True, agent=None, **fields):
        """The agent; equal ones share programs."""
        env = self.env() if env is None else env
        return (agent or self.agent)(env, None, self.config.replace(**fields), evaluated)


class Noting(A2C):
    """Reports the infos in its rollouts; NumPy computes its metrics."""

    def _actor_loss_input(self, runner, traj):
        is_action = (traj.info["action"] == traj.action).astype(jnp.float32)
        is_left_out = jnp.isnan(traj.info["seldom"]).astype(jnp.float32)
        return *super()._actor_loss_input(runner, traj), is_action, is_left_out

    def _actor_loss(self, training, obs, actions, log_prob_old, advantage, *more):
        is_action, is_left_out, hyperparams = more
        given = training, obs, actions, log_prob_old, advantage, hyperparams
        losses, info = super()._actor_loss(*given)
        return losses, {**info, "is_action": is_action, "is_left_out": is_left_out}

    def _eval_metrics(self, terminated, truncated, final_rewards, returns):
        metrics = super()._eval_metrics(terminated, truncated, final_rewards, returns)
        return {**metrics, "ended": int(np.sum(terminated))}


def relay():  # by which its environments are equal
    return Relay("rgb_array")


CASES = {
    "on-policy": Case(
        Noting,
        lambda: Walks(lambda: Walk("rgb_array")),
        a2c.AgentConfig(**ON_POLICY, **NETWORKS, **INFOS, normalise_rewards=True),
        a2c.HyperParameters(actor_optimizer_params=RATE, critic_optimizer_params=RATE),
        36,
    ),
    "buffer": Case(
        SAC,
        lambda: Walks(lambda: Steered("rgb_array")),
        sac.AgentConfig(
            **BUFFER,
            **STATISTICS,
            n_steps=400,
            eval_frequency=400,
            features=(),
            buffer_size=2_000,
        ),
        sac.HyperParameters(**dict.fromkeys(RATES, 1e-2), tau=0.05),
        390,
    ),
    "actors": Case(
        IPPO,
        lambda: PettingZoo(relay),
        ippo.AgentConfig(**{**ON_POLICY, **ACTORS}),
        ippo.HyperParameters(actor_optimizer_params=RATE),
    ),
}
small, make_sac = CASES["on-policy"].make, CASES["buffer"].make


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return CASES[request.param]


@pytest.fixture(scope="module")
def learnt(case):
    agent = case.make()
    agent.train(KEY, case.hyperparams, progress=False)
    return agent


def test_learns_and_is_evaluated_in_episodes_of_its_own(case, learnt):
    outcomes = learnt.eval(jax.random.key(3), n_evals=6)
    returns, lengths = outcomes["returns"], outcomes["lengths"]
    assert (lengths <= 5).all()
    trees.assert_equal(learnt.eval(jax.random.key(3), n_evals=6), outcomes)
    if case.agent is SAC:
        assert (returns > 1.5 * lengths).all()
    elif case.agent is IPPO:
        assert returns.shape == (6, 2)
        np.testing.assert_array_equal(returns.max(axis=-1), lengths)  # until each actor leaves
        assert (returns.min(axis=-1) < lengths).any()
    else:
        np.testing.assert_array_equal(returns, lengths)
        assert (outcomes["terminated"] ^ outcomes["truncated"]).all()
        assert not outcomes["terminated"][lengths == 5].all()
        drawn = learnt.eval(jax.random.key(3), n_evals=6, deterministic=False)
        np.testing.assert_array_equal(drawn["lengths"], lengths)


def test_acts_in_the_environment_as_it_is(case, learnt, tmp_path):
    env = learnt.episodes.env
    played = env._make()
    learnt.export_policy(tmp_path / "policy.safetensors")
    exported = load_policy(tmp_path / "policy.safetensors")
    obs, _ = played.reset(seed=0)
    for _ in range(2):
        action = learnt.policy(obs)
        if case.agent is not IPPO:  # whose environment checks it
            assert played.action_space.contains(action)
            assert played.action_space.contains(exported(obs))
            by_jax = jax.tree.map(jnp.asarray, obs)
            for traced in (learnt.policy(by_jax), jax.jit(lambda obs=obs: learnt.policy(obs))()):
                assert isinstance(traced, jax.Array)
                np.testing.assert_allclose(traced, action, rtol=1e-6)
        obs, *_ = played.step(action)
        if not getattr(played, "agents", True):
            break


def test_films_and_exports(case, learnt, tmp_path, monkeypatch):
    key, closed = jax.random.key(4), []
    monkeypatch.setattr(Relay, "close", lambda self: closed.append(self), raising=False)
    frames = learnt.render_episode(key)
    (length,) = learnt.eval(key, n_evals=1)["lengths"]
    np.testing.assert_array_equal(frames[:, 0, 0, 0], np.arange(length + 1))
    if case.agent is IPPO:
        assert len(closed) == 1
        return
    learnt.export_policy(tmp_path / "policy.safetensors")
    action = load_policy(tmp_path / "policy.safetensors")(np.array([0.3, 1, 1], np.float32))
    assert action == 1 if case.agent is Noting else action > 1.5  # in the environment's units


@pytest.mark.parametrize("case", ["on-policy", "buffer"], indirect=True)
def test_what_goes_on_is_the_same_bit_for_bit(case, learnt, tmp_path):
    folder = {"checkpoint_dir": tmp_path, "restore_agent": True}
    whole, n_left = learnt.training_runner, case.config.n_steps - case.after
    earlier, _ = case.make(**folder).train(
        KEY, case.hyperparams, n_steps=case.after, progress=False
    )
    runner, metrics = case.make(**folder).resume(KEY, case.hyperparams, progress=False)
    trees.assert_equal(runner, whole)
    np.testing.assert_array_equal(metrics["returns"][-1], learnt.training_metrics["returns"][-1])
    for _ in range(2):  # the episodes of the earlier runner are played again
        again, _ = case.make().train(None, None, earlier, n_steps=n_left, progress=False)
        trees.assert_equal(again, whole)
    stretch = case.make(**folder).replay(case.after, n_updates=n_left)
    trees.assert_equal(stretch.runner, whole)
    for name, number in whole.info.items():
        np.testing.assert_array_equal(stretch.metrics[name][-1], number)


def test_what_runs_on_the_host_is_not_compiled():
    agent, keys = CASES["on-policy"].make(), jax.random.split(KEY, 2)
    for attempt in (
        lambda: jax.vmap(lambda key: agent.train(key))(keys),
        lambda: jax.jit(agent.train)(KEY, CASES["on-policy"].hyperparams),
        lambda: agent.sweep(keys),
        lambda: agent.train(KEY, mesh=make_mesh()),
        lambda: agent.env_reset(KEY),
        lambda: agent.env_step(KEY, agent.start(KEY).envstate, 0),
    ):
        with pytest.raises(NotImplementedError, match=r"runs on the host.*one seed after another"):
            attempt()


def test_equal_environments_make_equal_agents_that_share_programs():
    """Whether they are named or made; a made one is copied."""
    name = "CartPole-v1"
    given = (f"gymnasium:{name}", jaxagents.make(f"gymnasium:{name}"), gymnasium.make(name))
    first, *others = (PPO(env, None, ppo.AgentConfig()) for env in given)
    for other in others:
        assert first == other
        assert first.programs is other.programs
    assert repr(first) == f"<PPO on {name}>"


# On-policy agents.


def test_rollouts_and_metrics_hold_infos_and_go_on_with_them():
    agent = small()
    runner, metrics = agent.train(KEY, n_steps=1, progress=False)
    assert runner.info["is_action"] == runner.info["is_left_out"] == 1.0
    np.testing.assert_array_equal(metrics["action"], metrics["returns"])  # the true rewards
    np.testing.assert_array_equal(metrics["won"], metrics["terminated"])
    runner, _ = agent.train(None, None, runner, n_steps=1, progress=False)
    assert agent.training_metrics["won"].shape == (3, 6)
    other = small(agent=A2C, final_info=("seldom",))
    other.collect_training(runner, agent.training_metrics)
    with pytest.raises(ValueError, match=r"run had \['ended', 'won'\] so far, which the agent"):
        other.train(None, None, runner, progress=False)


def vector(kind, mode, n_envs=4):
    """Environments that are given; agents in them share the programs of others."""
    return Walks(SyncVectorEnv([kind] * n_envs, autoreset_mode=mode), eval_env=kind)


def test_agents_take_turns_in_environments_that_are_given():
    env = vector(Walk, AutoresetMode.DISABLED)
    agent, other = small(env), small(env)
    runner = agent.advance(agent.start(KEY), 1)
    other.start(jax.random.key(1))
    gone_on = agent.advance(jax.device_put(runner, may_alias=False), 1)
    trees.assert_equal(gone_on, agent.advance(runner, 1))  # whose episodes are played again


def test_closing_closes_the_copies_that_were_made():
    closed = []

    class Closing(Walk):
        def close(self):
            closed.append(self)

    env = Walks(Closing)
    agents = [small(env), small(env)]
    for n_made, agent in zip((4, 8), agents, strict=True):
        agent.start(KEY)
        for _ in range(2):
            env.close()
            assert len(set(closed)) == n_made
    agents[0].start(KEY)
    agents[1].env.close()
    assert len(set(closed)) == 8
    agents[0].env.close()
    assert len(set(closed)) == 12


@pytest.mark.slow
def test_environments_in_processes_make_the_same_training():
    env = Walks(Walk, vectorization_mode="async")
    here, there = (small(it).train(KEY, n_steps=2, progress=False)[0] for it in (None, env))
    env.close()
    trees.assert_equal(here, there)


class Plain(gymnasium.Wrapper):
    """A wrapper that does not tell Gymnasium how it was made."""


def test_environments_in_wrappers_that_are_not_recorded(monkeypatch):
    """They may be registered with it, or are copied by pickling; one agent plays in the one given."""
    monkeypatch.setattr(gymnasium.envs.registration, "registry", {**gymnasium.registry})
    gymnasium.register("PlainWalk-v0", lambda: Plain(Walk()))
    agent = small(gymnasium.make("PlainWalk-v0"))
    assert np.isfinite(agent.evaluate(agent.start(KEY))["returns"]).all()
    one, other = (Plain(Walk()) for _ in range(2))
    assert Gymnasium(one) != Gymnasium(other)
    agent = small(one, batch_size=1)
    assert np.isfinite(agent.evaluate(agent.start(KEY))["returns"]).all()
    assert hasattr(one.unwrapped, "_time")
    assert not hasattr(other.unwrapped, "_time")


class Endless(Walk):
    def step(self, action):
        observation, reward, _, _, info = super().step(action)
        return observation, reward, False, False, info


def test_limits_of_environments_are_theirs(monkeypatch):
    """A cap that was not set does not come before them, be it the limit of evaluations alone."""
    monkeypatch.setattr(gymnasium.envs.registration, "registry", {**gymnasium.registry})
    gymnasium.register("Endless-v0", Endless, max_episode_steps=10_100)
    agent = small(gymnasium.make("Endless-v0"))
    with agent.env.playing("evaluation", 1, terms_of(agent.episodes)) as episodes:
        assert episodes.max_steps == 10_100
    limited = gymnasium.wrappers.TimeLimit(Endless(), 20_000)
    longer = gymnasium.make("CartPole-v1", max_episode_steps=20_000)
    long_spread = jaxagents.make("pettingzoo:mpe/simple_spread-v3", max_cycles=12_000)
    for env, kept, expected in (
        (gymnasium.make("Endless-v0"), 10_100, 10_100),
        (limited, 10_000, 20_000),
        (Gymnasium(Endless, eval_env=limited), 10_000, 20_000),
        (Gymnasium(gymnasium.make("CartPole-v1"), eval_env=longer), 500, 20_000),
        (Endless(), 10_000, 9999),
        (long_spread, 10_000, 12_001),
    ):
        assert Episodes(as_environment(env)).max_steps == expected
        _, state = as_environment(env).reset(KEY)
        assert len(jax.tree.leaves(state.actions)[0]) == kept
    assert small(gymnasium.make("Endless-v0"), max_episode_steps=50).episodes.max_steps == 50


def remembering():
    """An agent that remembers, in a vector that starts episodes by itself."""
    return small(vector(Walk, AutoresetMode.NEXT_STEP), False, rollout_length=7, **REMEMBERING)


def without_past(runner, where):
    """A runner whose critic remembers nothing in some environments, which have been rewarded nothing."""
    return runner.replace(
        critic_carry=jnp.where(where[:, None], 0.0, runner.critic_carry),
        received=jnp.where(where, 0.0, runner.received),
    )


def test_episodes_that_begin_between_rollouts_are_valued_without_those_before():
    """Such as in steps that a rollout leaves out, since other environments have yet to take theirs."""
    agent, by_hand = remembering(), remembering()
    runner, same = (it.start(KEY) for it in (agent, by_hand))
    n_resets = 0
    for _ in range(6):
        runner, same = agent.advance(runner, 1), by_hand.advance(same, 1)
        begins = (same.carry == 0.0).all(axis=-1)
        np.testing.assert_array_equal(begins, same.envstate.step == 0)
        n_resets += int((begins & (same.critic_carry != 0.0).any(axis=-1)).sum())
        same = without_past(same, begins)
        trees.assert_equal(without_past(runner, begins), same)
    assert n_resets


@pytest.mark.filterwarnings("ignore:Training continues, but not as if")
def test_new_episodes_in_the_place_of_others_begin_without_memories():
    agent = remembering()
    runner = agent.advance(agent.start(KEY), 1)
    assert np.any(runner.carry)
    assert np.any(runner.critic_carry)
    forgotten = without_past(runner, np.ones(4, bool))
    forgotten = forgotten.replace(carry=jnp.zeros_like(runner.carry))
    after, expected = (
        remembering().advance(jax.device_put(it, may_alias=False), 1) for it in (runner, forgotten)
    )
    trees.assert_equal(after, expected)


# Agents with a replay buffer, and offline agents.


def test_statistics_are_of_all_transitions_which_are_stored_in_units_of_the_environment():
    runner, metrics = make_sac().train(KEY, n_steps=6, progress=False)
    before = make_sac().start(KEY)
    assert jax.random.key_data(runner.rng).tolist() != jax.random.key_data(before.rng).tolist()
    stored = runner.buffer.to_dataset()
    assert len(stored) == 8 + 2 * 6
    np.testing.assert_array_equal(stored["rewards"], stored["actions"][:, 0])
    assert stored.action_space.high == 2.0
    assert (np.abs(metrics["returns"]) <= 2 * metrics["lengths"]).all()
    assert runner.returns.count == len(stored)
    counts = {
        int(leaf)
        for path, leaf in jax.tree.leaves_with_path(runner.learner.actor)
        if "count" in jax.tree_util.keystr(path) and np.ndim(leaf) == 0
    }
    assert len(stored) in counts


def test_a_buffer_that_checkpoints_leave_out_is_filled_anew(tmp_path):
    folder = {"checkpoint_dir": tmp_path, "restore_agent": True, "checkpoint_buffer": False}
    lean = make_sac(**folder)
    lean.train(KEY, n_steps=3, progress=False)
    with pytest.raises(ValueError, match="without their replay buffers"):
        lean.replay(1)
    again = make_sac(**folder)
    runner, _ = again.train(runner=again.restore("last")[0], n_steps=3, progress=False)
    assert runner.update_step == 6
    assert len(runner.buffer.to_dataset()) == 8 + 2 * 3


@pytest.mark.parametrize("mode", AutoresetMode)
def test_in_vectors_rows_follow_one_another_until_an_episode_ends(mode):
    """Also where some environments wait for others, and their steps are left out."""
    runner, _ = make_sac(vector(Steered, mode, 2)).train(KEY, n_steps=26, progress=False)
    if mode == AutoresetMode.DISABLED:
        trees.assert_equal(runner, make_sac().train(KEY, n_steps=26, progress=False)[0])
    names, n_rows = ("observations", "next_observations", "ends", "masks"), 8 + 2 * 26
    rows = (np.asarray(runner.buffer.storage[name])[:n_rows] for name in names)
    obs, successors, ends, masks = rows
    follows = ~ends[:-2]
    np.testing.assert_array_equal(obs[2:][follows], successors[:-2][follows])
    assert follows.any()
    assert ends[masks == 0].all()
    assert (masks[ends] == 1).any()  # time limits


def test_masks_of_any_type_and_limits_that_terminate():
    """Each action that `Masked` is not allowed is refused by it."""
    fields = {"max_episode_steps": 2, "terminate_at_limits": True}
    config = dqn.AgentConfig(**BUFFER, n_steps=6, features=(), **fields)
    agent = DQN(Gymnasium(Masked), None, config)
    runner, metrics = agent.train(KEY, progress=False)
    assert runner.obs["action_mask"].dtype == bool
    obs, _ = Masked().reset(seed=0)
    assert type(agent.policy(obs)) is int
    assert agent.policy(obs) in (1, 3)
    assert set(np.unique(runner.buffer.to_dataset()["actions"])) <= {1, 3}
    assert metrics["terminated"].all()
    assert not metrics["truncated"].any()


class Spoilt(Steered):
    """Returns a NaN reward in the third step of each episode."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, np.nan if self._time == 3 else reward, *rest


def test_rewards_that_are_not_finite_are_reported():
    agent = make_sac(Walks(Spoilt))
    with (
        pytest.warns(
            UserWarning, match=r"evaluation after update 0 met non-finite .*, in episodes \["
        ),
        pytest.raises(NotFiniteError, match=r"since update 1: rewards of environments \[1\]"),
    ):
        agent.train(KEY, progress=False)
    metrics = agent.training_metrics
    np.testing.assert_array_equal(np.isnan(metrics["returns"]), metrics["lengths"] >= 3)


def test_offline_agents_are_evaluated():
    rows = make_sac().train(KEY, n_steps=6, progress=False)[0].buffer.to_dataset()
    config = bc.AgentConfig(n_steps=2, features=(), minibatch_size=4, eval_frequency=1, n_evals=2)
    agent = BC(CASES["buffer"].env(), None, config, dataset=Dataset({**rows}))
    _, metrics = agent.train(KEY, progress=False)
    assert metrics["returns"].shape == (3, 2)
    assert (metrics["lengths"] <= 5).all()
    assert len(agent.render_episode(KEY)) == 1 + agent.eval(KEY, n_evals=1)["lengths"][0]


# Several actors.


def test_copies_are_made_of_an_environment_or_taken_as_they_are():
    config, first = CASES["actors"].config, PettingZoo(Relay())
    assert first == PettingZoo(Relay()) != CASES["actors"].env()
    given = [Relay() for _ in range(4)]
    same = IPPO(PettingZoo(given), None, config)
    assert same.start(KEY).obs["observation"].shape == (4, 2, 4)
    assert all(env.agents for env in given)
    assert IPPO(Relay(), None, config) == IPPO(first, None, config)
    assert repr(same) == "<IPPO on relay>"
    assert "critic_state" not in same._observation
    central = MAPPO(Relay(), None, config.replace(critic_network=None))
    assert central._observation["critic_state"].shape == (3,)


def test_environments_by_their_names():
    name = "pettingzoo:mpe/simple_speaker_listener-v4"
    env = jaxagents.make(name, max_cycles=3)
    assert env.agents == ("speaker_0", "listener_0")
    assert env.can_draw
    assert env == jaxagents.make(name, max_cycles=3) != jaxagents.make(name)
    with pytest.raises(ValueError, match="Did you mean 'mpe/simple_spread-v3'"):
        jaxagents.make("pettingzoo:mpe.simple_spread_v3")


def test_a_buffer_in_the_memory_of_the_host_gives_the_same_training():
    config = dqn.AgentConfig(
        **BUFFER, n_steps=12, buffer_size=100, gradient_steps=2, n_step_returns=2, features=()
    )
    here, accelerator = jax.devices()[:2]
    mode = AutoresetMode.NEXT_STEP  # in which steps of some environments are left out
    runner, _ = DQN(vector(Walk, mode, 2), None, config, False).train(KEY, progress=False)
    with jax.default_device(accelerator):
        agent = DQN(vector(Walk, mode, 2), None, config.replace(buffer_on_host=True), False)
        other, _ = agent.train(KEY, progress=False)
        later, _ = agent.train(runner=other, n_steps=3, progress=False)
    assert trees.equal(runner, other)
    for it in (other, later):
        assert {x.device for x in jax.tree.leaves(it.buffer)} == {here}
        assert {x.device for x in jax.tree.leaves(it.learner)} == {accelerator}


class Numbered(DQN):
    """Acts by the number of the step."""

    def _explore(self, key, learner, obs, n_steps):
        return jnp.asarray(n_steps, jnp.int32)[None]


class Counted(Walk):
    action_space = gymnasium.spaces.Discrete(100)


def test_further_steps_of_a_rollout_have_random_numbers_of_their_own():
    config = dqn.AgentConfig(batch_size=1, buffer_size=64, learning_starts=1, features=())
    env = vector(Counted, AutoresetMode.NEXT_STEP, 1)  # which takes a step to begin an episode
    agent = Numbered(env, None, config, False)
    runner = agent.advance(agent.start(KEY), 20)
    actions, ends = (runner.buffer.storage[name][:21] for name in ("actions", "ends"))
    np.testing.assert_array_equal(actions[1:] != np.arange(20), ends[:-1])
    assert ends[:-1].any()
