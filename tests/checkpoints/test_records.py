"""Checkpoints: which are kept, restored and rejected, and how runs continue from them."""

import functools
import json
import os
import re
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from filelock import FileLock
from flax import linen as nn
from probes import BestAction, MatchSign
from saved_runs import CASE, CASES, KEY, contents, damage_arrays, make, trained

from jaxagents import A2C, PPO, Environment, a2c, verify
from jaxagents.callbacks import Callback
from jaxagents.checkpoints.disk import lock
from jaxagents.checkpoints.leaves import check_leaves, leaves_of, pack
from jaxagents.checkpoints.makeup import differences, makeup_of
from jaxagents.checkpoints.records import AgentStore, saved_steps
from jaxagents.checkpoints.writer import Writer
from jaxagents.core.hyperparameters import CosineSchedule
from jaxagents.envs import FrameStack
from jaxagents.envs.environment import Step
from jaxagents.envs.spaces import Discrete
from jaxagents.networks import CategoricalActor, StateCritic
from jaxagents.ppo import AgentConfig, OptimizerParams

SMALL = CASES["BC"]
"""For tests that need programs of their own: its are the smallest."""


def small(folder=None, **fields):
    return SMALL.make(MatchSign, False, n_steps=6, features=(), checkpoint_dir=folder, **fields)


def lines_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_keeps_the_latest_and_the_best_and_other_files(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    mine = [tmp_path / "notes.txt", tmp_path / "checkpoints" / "thoughts.txt"]
    for file in mine:
        file.write_text("mine")
    agent = trained(tmp_path, n_steps=10, keep_checkpoints=2)
    means = agent.training_metrics["returns"].mean(axis=-1)
    steps = saved_steps(tmp_path)
    assert steps[-2:] == [8, 10]
    assert len(steps) <= 3
    kept = np.isin(agent.eval_steps_in_training, steps)
    assert means[kept].max() == means.max()
    assert [file.read_text() for file in mine] == ["mine", "mine"]


def test_restores_best_last_and_any_step(whole, folder):
    agent = make(folder)
    _, history = agent.restore("last")
    assert agent.previous_training_max_step == 6
    trees.assert_equal(agent.eval(KEY), whole.eval(KEY))
    agent.restore(2)
    assert agent.previous_training_max_step == 2
    np.testing.assert_array_equal(agent.eval_steps_in_training, [0, 2])
    agent.restore("best", best_fn=lambda metrics: np.argmin(metrics["update_step"]))
    assert agent.previous_training_max_step == 0
    agent.restore()
    means = history["returns"].mean(axis=-1)
    best = history["update_step"].tolist().index(agent.previous_training_max_step)
    assert means[best] == means.max()


def test_describes_the_run_never_overwrites_that_and_logs_metrics(folder):
    config = json.loads((folder / "config.json").read_text())
    assert (config["agent"], config["environment"]) == ("REINFORCE", "MatchSign")
    assert config["config"]["batch_size"] == 8
    first = (folder / "hyperparameters.json").read_text()
    assert json.loads(first)["gamma"] == 0.5
    lines = lines_of(folder)
    assert [line["update_step"] for line in lines] == [0, 2, 4, 6]
    assert "actor_loss" not in lines[0]
    assert isinstance(lines[1]["actor_loss"], float)
    agent = make(folder)
    runner, _ = agent.restore("last")
    agent.train(None, CASE.hyperparams(gamma=0.25), runner, n_steps=1, progress=False)
    assert (folder / "hyperparameters.json").read_text() == first
    assert json.loads((folder / "hyperparameters-2.json").read_text())["gamma"] == 0.25


def test_refuses_filled_folders_and_to_train_behind_the_last_checkpoint(folder):
    with pytest.raises(FileExistsError, match="already holds checkpoints, up to update 6"):
        make(folder, restore_agent=False)
    agent = make(folder)
    with pytest.raises(FileExistsError, match="starts at update 0"):
        agent.train(KEY, CASE.hyperparams(), progress=False)
    runner, _ = agent.restore(2)
    with pytest.raises(FileExistsError, match="starts at update 2"):
        agent.train(None, None, runner, progress=False)
    assert saved_steps(folder) == [0, 2, 4, 6]


def test_refuses_a_folder_in_use(tmp_path):
    agent = make(tmp_path)
    with FileLock(tmp_path / ".lock"), pytest.raises(FileExistsError, match="Another run"):
        agent.train(KEY, CASE.hyperparams(), progress=False)
    first, second = lock(tmp_path), lock(tmp_path)  # one thread may lock it as often as it likes
    second.release()
    with ThreadPoolExecutor(1) as other, pytest.raises(FileExistsError, match="Another run"):
        other.submit(lock, tmp_path).result()
    first.release()
    with ThreadPoolExecutor(1) as other:
        other.submit(lambda: lock(tmp_path).release()).result()


def test_refuses_what_is_not_there(folder):
    agent = make(folder)
    with pytest.raises(FileNotFoundError, match=r"no checkpoint of 3.*\[0, 2, 4, 6\]"):
        agent.restore(3)
    with pytest.raises(FileNotFoundError, match="no checkpoint of 'newest'"):
        agent.restore("newest")
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        agent.restore("best", best_fn=lambda metrics: 9)
    for wrong in (0.5, np.zeros(2, int), True):
        with pytest.raises(
            TypeError, match=r"best_fn must return the index .*, an integer, .* got"
        ):
            agent.restore("best", best_fn=lambda metrics, wrong=wrong: wrong)


def test_refuses_another_network_environment_or_agent(folder):
    wide = make(folder, actor_network=CategoricalActor(2, features=(32,)))
    with pytest.raises(ValueError, match=r"Dense_0/kernel with shape \(16, 2\).*\(32, 2\)"):
        wide.restore("last")
    deep = make(folder, critic_network=StateCritic(features=(16, 16)))
    with pytest.raises(ValueError, match=r"does not fit this agent.*critic_training/"):
        deep.restore("last")
    with pytest.raises(ValueError, match="is of the environment MatchSign, but this is BestAction"):
        make(folder, env=BestAction).restore("last")

    class Other(CASE.agent):
        pass

    other = Other(MatchSign(), None, CASE.config(checkpoint_dir=folder, restore_agent=True))
    with pytest.raises(ValueError, match=r"is of the agent REINFORCE, but this is .*Other"):
        other.restore("last")


def test_refuses_networks_that_compute_something_else_with_the_same_arrays(folder):
    agent = make(folder, actor_network=CategoricalActor(2, features=(16,), activation=nn.relu))
    different = (
        r"update 6 in .* was made with other networks .*: actor_training: activation was tanh, "
    )
    different += r"is relu\."
    with pytest.raises(ValueError, match=rf"{different} Make the agent .* strict=False"):
        agent.restore("last")
    with pytest.raises(ValueError, match=different):
        agent.resume(KEY)
    with pytest.warns(UserWarning, match=different):
        agent.restore("last", strict=False)
    assert agent.previous_training_max_step == 6
    with pytest.raises(TypeError, match="strict"):
        agent.restore("last", strict="no")


def test_refuses_another_network_or_options_of_an_environment_on_the_host(tmp_path):
    def agent(activation=nn.tanh, **options):
        networks = {
            "actor_network": CategoricalActor(2, (4,), activation),
            "critic_network": StateCritic((4,)),
        }
        sizes = {"n_steps": 1, "batch_size": 1, "rollout_length": 2, **networks}
        env = gymnasium.make("CartPole-v1", **options)
        config = a2c.AgentConfig(**sizes, checkpoint_dir=tmp_path / "run", restore_agent=True)
        return A2C(env, None, config, eval_during_training=False)

    agent(sutton_barto_reward=True).train(KEY, progress=False)
    for other, told in (
        (agent(nn.relu, sutton_barto_reward=True), "activation was tanh, is relu"),
        (agent(sutton_barto_reward=False), "sutton_barto_reward was True, is False"),
    ):
        with pytest.raises(ValueError, match=told):
            other.restore("last")
        with pytest.warns(UserWarning, match=told):
            other.restore("last", strict=False)
    agent(sutton_barto_reward=True, render_mode="rgb_array").restore("last")


class Scaled(nn.Module):
    """A network with numbers, a function and an initialiser."""

    table: tuple[float, ...]
    function: Callable = functools.partial(nn.leaky_relu, negative_slope=0.1)
    kernel_init: Callable = nn.initializers.zeros

    @nn.compact
    def __call__(self, obs):
        return nn.Dense(2, kernel_init=self.kernel_init)(self.function(obs * self.table[0]))


class Attracted(Environment):
    """An environment whose steps depend on an attribute."""

    action_space = Discrete(2)

    def __init__(self, force):
        self.force = force

    def reset(self, key):
        return jnp.zeros(2), jnp.zeros(2)

    def step(self, key, state, action):
        after = state - self.force
        return Step(after, after, jnp.float32(0), jnp.bool(False), jnp.bool(False), {})


LEAKY = functools.partial(nn.leaky_relu, negative_slope=0.2)
MAKEUPS = [
    ({"gravity": 9.8}, {"gravity": 1.6}, "environment parameters: gravity was 9.8, is 1.6"),
    ({"env": Attracted(0.5)}, {"env": Attracted(2.0)}, "environment: force was 0.5, is 2.0"),
    (
        {"env": FrameStack(Attracted(0.5), 2)},
        {"env": FrameStack(Attracted(2.0), 2)},
        "environment: env: force was 0.5, is 2.0",
    ),
    ({"squash_actions": False}, {"squash_actions": True}, "squash_actions was False, is True"),
    ({}, {"memory": "gru"}, "actor_training: class was CategoricalActor, is WithMemory"),
    (Scaled((1.0, 1.0)), Scaled((2.0, 2.0)), "table was [1.0, 1.0], is [2.0, 2.0]"),
    (
        {"table": np.ones(3)},
        {"table": np.zeros(3)},
        "table was [1.0, 1.0, 1.0], is [0.0, 0.0, 0.0]",
    ),
    ({"table": np.ones(99)}, {"table": np.zeros(99)}, "parameters: table was ['(99,)', "),
    (Scaled((1.0, 1.0)), Scaled((1.0, 1.0), LEAKY), "function: negative_slope was 0.1, is 0.2"),
    (Scaled((1.0, 1.0)), Scaled((1.0, 1.0), kernel_init=nn.initializers.ones), None),
    (Scaled((1.0, 1.0)), Scaled((1.0, 1.0)), None),
]


@pytest.mark.parametrize(("saved", "own", "told"), MAKEUPS)
def test_differences_of_networks_and_environments_are_told(saved, own, told):
    def makeup(given):
        fields = {"actor_network": given} if isinstance(given, nn.Module) else dict(given)
        env = fields.pop("env", MatchSign())
        params = {name: fields.pop(name) for name in ("gravity", "table") if name in fields}
        config = AgentConfig(batch_size=4, rollout_length=8, **fields)
        agent = PPO(env, params or None, config)
        text = json.dumps(makeup_of(agent, jax.eval_shape(agent.start, KEY)))
        assert not re.search("0x[0-9a-f]{6}", text)  # an address
        return json.loads(text)

    found = "; ".join(differences(makeup(saved), makeup(own)))
    assert told in found if told else not found


class WithMomentum(OptimizerParams):
    b1: float = 0.8


def test_hyperparameters_of_an_own_type_have_to_be_given(tmp_path):
    hyperparams = CASE.hyperparams(actor_optimizer_params=WithMomentum())
    agent = CASE.make(MatchSign, False, n_steps=6, checkpoint_dir=tmp_path)
    agent.train(KEY, hyperparams, progress=False, callbacks=[lambda progress: True])
    with pytest.raises(ValueError, match="has a finite mean return"):
        agent.restore("best")  # without evaluation
    with pytest.raises(ValueError, match="does not fit this agent"):
        agent.restore("last")
    runner, _ = agent.restore("last", hyperparams=hyperparams)
    assert runner.actor_training.opt_state.hyperparams["b1"] == np.float32(0.8)


def test_a_terminated_training_saves_and_ends_as_such(whole, tmp_path):
    class Terminating:
        def log(self, step, metrics):
            if step == 2:
                os.kill(os.getpid(), signal.SIGTERM)

    received = []
    before = signal.signal(signal.SIGTERM, lambda *_: received.append(saved_steps(tmp_path)))
    agent = make(tmp_path, keep_checkpoints=None)
    agent.train(KEY, CASE.hyperparams(), progress=False, loggers=[Terminating()])
    signal.signal(signal.SIGTERM, before)
    assert received == [[0, 2, agent.previous_training_max_step]]
    resumed, _ = make(tmp_path).resume(KEY, progress=False)
    trees.assert_equal(whole.training_runner, resumed)


def test_an_interruption_does_not_displace_the_best(tmp_path):
    class Interrupting:
        def log(self, step, metrics):
            if step == 0:
                os.kill(os.getpid(), signal.SIGINT)

    agent = make(tmp_path, keep_checkpoints=1)
    agent.train(KEY, CASE.hyperparams(), progress=False, loggers=[Interrupting()])
    assert saved_steps(tmp_path) == [0, agent.previous_training_max_step]
    agent.restore("best")
    assert agent.previous_training_max_step == 0


def test_resume_completes_a_training_and_then_does_nothing(whole, tmp_path):
    trained(tmp_path, n_steps=2)
    for _ in range(2):  # whose hyperparameters are kept
        resumed, history = make(tmp_path).resume(KEY, progress=False)
        trees.assert_equal(whole.training_runner, resumed)
        trees.assert_equal(whole.training_metrics, history)
    fresh, _ = make(tmp_path / "new").resume(KEY, CASE.hyperparams(), progress=False)
    trees.assert_equal(whole.training_runner, fresh)


def test_resume_refuses_another_key_than_the_training_began_with(folder):
    before, agent = contents(folder), make(folder)
    with pytest.raises(ValueError, match=r"first random key is \[0, 0\], and this one's \[0, 1\]"):
        agent.resume(jax.random.key(1), CASE.hyperparams(), progress=False)
    assert contents(folder) == before
    assert not agent.agent_trained
    for key in (jax.random.PRNGKey(0), None):
        agent.resume(key, CASE.hyperparams(), progress=False)


def test_the_evaluation_that_an_interruption_left_out_is_saved_once(tmp_path):
    class Ending(Callback):
        def on_chunk(self, progress):
            return progress.step == 6

    agent = make(tmp_path)
    agent.train(KEY, CASE.hyperparams(), progress=False, callbacks=[Ending()])
    _, history = make(tmp_path).restore("last")
    np.testing.assert_array_equal(history["update_step"], [0, 2, 4])
    _, metrics = make(tmp_path).resume(KEY, CASE.hyperparams(), progress=False)
    agent = make(tmp_path)
    _, history = agent.restore("last")
    trees.assert_equal(metrics, history)
    np.testing.assert_array_equal(history["update_step"], [0, 2, 4, 6])
    assert AgentStore(tmp_path).mean_returns()[6] == history["returns"][-1].mean()
    before = contents(tmp_path)
    agent.resume(KEY, CASE.hyperparams(), progress=False)
    assert contents(tmp_path) == before
    assert [line["update_step"] for line in lines_of(tmp_path)] == [0, 2, 4, 6]


def test_hyperparameters_given_at_a_checkpoint_are_saved_with_it(tmp_path):
    first, then = map(SMALL.hyperparams, (0.5, CosineSchedule(0.5, 0.25, 8)))
    agent = small(tmp_path)
    agent.train(KEY, first, n_steps=2, progress=False)
    went_on, _ = agent.train(None, then, agent.training_runner, n_steps=2, progress=False)
    np.testing.assert_array_equal(agent.eval_steps_in_training, [0, 2, 4])
    agent = small(tmp_path, restore_agent=True)
    trees.assert_equal(agent.replay(2, n_updates=2).runner, went_on)
    runner, history = agent.restore(2)
    np.testing.assert_array_equal(history["update_step"], [0, 2])
    assert repr(runner.hyperparams) == repr(went_on.hyperparams)  # also the kind of schedule
    before = contents(tmp_path)
    agent.train(None, then, agent.restore("last")[0], n_steps=1, progress=False)
    assert before.items() <= contents(tmp_path).items()  # without a change nothing is written anew
    assert not any(verify(tmp_path).values())


def test_keys_of_another_implementation_come_back_as_such(tmp_path):
    key = jax.random.key(0, impl="rbg")
    small(tmp_path).train(key, SMALL.hyperparams(), n_steps=2, progress=False)
    agent = small(tmp_path, restore_agent=True)
    resumed, _ = agent.resume(key, SMALL.hyperparams(), progress=False)
    whole, _ = small().train(key, SMALL.hyperparams(), progress=False)
    trees.assert_equal(whole, resumed)
    assert resumed.rng.dtype == key.dtype
    trees.assert_equal(agent.replay(2, n_updates=4).runner, whole)


def test_the_metrics_go_on_from_copies_and_with_other_hyperparameters(tmp_path):
    agent, other = make(tmp_path), CASE.hyperparams(learning_rate=0.125)
    one = {"n_steps": 1, "progress": False}
    runner, _ = agent.train(KEY, CASE.hyperparams(), **one)
    runner, _ = agent.train(None, None, agent.restart(runner, other), **one)
    agent.train(None, None, jax.device_get(runner), **one)
    np.testing.assert_array_equal(agent.eval_steps_in_training, [0, 1, 2, 3])
    restored = make(tmp_path)
    runner, metrics = restored.restore("last")
    np.testing.assert_array_equal(metrics["update_step"], [0, 1, 2, 3])
    restored.train(None, None, restored.restart(runner, other), **one)
    np.testing.assert_array_equal(restored.restore("last")[1]["update_step"], [0, 1, 2, 3, 4])


def test_a_history_that_is_not_given_is_not_lost(folder):
    agent = make(folder)
    runner, _ = agent.restore("last")
    stranger, changed = jax.tree.map(jnp.copy, runner), CASE.hyperparams(gamma=0.25)
    agent = make(folder)
    with pytest.warns(UserWarning, match="not at the end of the run that the agent remem"):
        agent.train(None, changed, stranger, n_steps=1, progress=False)
    runner, history = agent.restore(6)
    assert runner.hyperparams.gamma == 0.25
    np.testing.assert_array_equal(history["update_step"], [0, 2, 4, 6])


def test_the_metrics_of_another_training_begin_anew_with_a_warning(tmp_path):
    agent = trained(tmp_path, n_steps=2)
    stranger, _ = make().train(jax.random.key(1), CASE.hyperparams(), n_steps=2, progress=False)
    with pytest.warns(
        UserWarning, match=r"start over\. They continue from the runner of agent.rest"
    ):
        agent.train(None, None, stranger, n_steps=1, progress=False)
    np.testing.assert_array_equal(agent.eval_steps_in_training, [2, 3])
    with pytest.warns(UserWarning, match="not at the end of the run that the agent remembers"):
        agent.train(None, None, agent.advance(agent.training_runner, 1), n_steps=1, progress=False)
    np.testing.assert_array_equal(agent.eval_steps_in_training, [4, 5])


TREE = {
    "few": np.arange(6.0, dtype=np.float32).reshape(2, 3),
    "scalar": np.int32(7),
    "half": jnp.ones(3, jnp.bfloat16),
    "mask": np.array([True, False]),
    "none": np.zeros((0, 2), np.uint8),
    "key": jax.random.key(3),
    "many": np.arange(200_000, dtype=np.float32).reshape(2, -1),
}


def test_arrays_of_any_type_and_size_are_copied_and_come_back(tmp_path):
    own = jax.tree.map(lambda x: x.copy() if isinstance(x, np.ndarray) else x, TREE)
    history = {"update_step": np.array([0, 4]), "nothing": np.zeros((2, 0))}
    store = AgentStore(tmp_path)
    with Writer(store, {"agent": "any"}, keep=None, start=0, descriptions={}) as writer:
        writer.save(4, own, history, mean_return=None, notes={"more": [1, 2]})
        own["few"][:] = own["many"][:] = -1  # as updates use arrays up
    restored = store.read(4, {"agent": "any"}, jax.eval_shape(lambda: TREE))
    trees.assert_equal(restored.tree, jax.tree.map(jnp.asarray, TREE))
    assert all(isinstance(x, jax.Array) for x in restored.tree.values())
    trees.assert_equal(restored.history, history)
    assert restored.notes["more"] == [1, 2]
    damage_arrays(tmp_path / "checkpoints" / "4" / "runner")
    assert "it has changed at" in str(store.damage(4)) or "cannot be read" in str(store.damage(4))


@pytest.mark.parametrize("had", [True, False])
def test_leaves_of_another_width_are_refused(had):
    def leaves():
        return leaves_of({"key": jax.random.key(3), "n": jnp.asarray(np.arange(2))})

    with jax.enable_x64(had):
        _, saved = pack(leaves())
    with jax.enable_x64(not had), pytest.raises(ValueError, match="leaf that differs is n with"):
        check_leaves(saved, leaves(), "The checkpoint", "agent")
    with pytest.raises(ValueError, match=r"dtype float32\.$"):
        check_leaves(saved, leaves_of({"key": jax.random.key(3), "n": jnp.ones(2)}), "It", "agent")
