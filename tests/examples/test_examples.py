import argparse

import jax
import jax.numpy as jnp
import nbformat
import numpy as np
import pytest
from flax import linen as nn
from probes import Pennies
from safetensors.numpy import load_file
from suite_checks import trace_updates

from jaxagents import load_policy
from jaxagents.envs import Opponents
from jaxagents.ppo import AgentConfig, HyperParameters

RUNS = {  # options of a small run, the files that it writes, and something that it prints
    "cartpole_ppo": (
        "--n-steps 1 --n-seeds 2 --n-evals 5",
        "learning_curve.png sweep.png episode.png metrics.jsonl",
        "Identical to 2 updates without interruption: True",
    ),
    "pursuit_ippo": (
        "--n-steps 2 --n-matches 6",
        "learning.png trajectories.png pursuit.gif",
        "environment steps   pursuer    evader    caught",
    ),
    "minatar_dqn": (
        "--n-steps 80",
        "learning_curve.png episode.gif config.json metrics.jsonl",
        "Mean return after 80 steps",
    ),
    "risk_averse_qrdqn": ("--n-steps 80 --n-evals 20", "quantiles.png", "along the shore"),
}
SMALL = {
    "pursuit_ippo": {"MAX_EPISODE_STEPS": 20},
    "minatar_dqn": {"BUFFER_SIZE": 160, "LEARNING_STARTS": 40, "MAX_STEPS": 60},
}


@pytest.mark.parametrize("name", RUNS)
def test_script(name, load, check_files, refuses, tmp_path, monkeypatch, capsys):
    script, (options, files, text) = load(name), RUNS[name]
    for constant, size in SMALL.get(name, {}).items():
        monkeypatch.setattr(script, constant, size)
    argv = ["--output", str(tmp_path / "run"), *options.split()]
    script.main(argv)
    assert text in capsys.readouterr().out
    check_files(tmp_path / "run", *files.split())
    refuses(script, argv)


def test_games_and_ready_made_agents(load, tmp_path):
    trace_updates(load("pursuit_ippo").make_agent(2, ready_made=True))
    minatar = load("minatar_dqn")
    for game in minatar.GAMES:
        options = argparse.Namespace(env=game, agent="dqn", n_steps=80, output=tmp_path)
        agent = minatar.make_agent(options)
        _, obs, _ = jax.eval_shape(agent.env_reset, jax.random.key(0))
        assert obs.shape[:2] == (10, 10)
    for name, (_, agent_class) in minatar.AGENTS.items():
        options.agent = name
        assert type(minatar.make_agent(options)) is agent_class
        minatar.make_hyperparams(options).check_ranges()


def test_notebooks_are_committed_without_outputs(examples):
    (path,) = examples.glob("*.ipynb")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs"), cell.id
        assert cell.get("execution_count") is None, cell.id


def test_a_policy_in_numpy_acts_as_the_agent(load, tmp_path):
    script, path = load("numpy_policy"), tmp_path / "policy.safetensors"
    length = script.main(["--policy", str(path), "--n-steps", "1"])
    assert script.main(["--policy", str(path)]) == length
    weights, policy = load_file(path), load_policy(path)
    observations = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    actions = [script.greedy_action(weights, observation) for observation in observations]
    np.testing.assert_array_equal(actions, policy(observations))
    assert len(set(actions)) == 2


def test_a_search_ends_what_falls_behind(load):
    study = load("optuna_search").main(["--n-trials", "8", "--n-steps", "20"])
    states = [trial.state.name for trial in study.trials]
    assert len(states) == 8
    assert set(states) == {"COMPLETE", "PRUNED"}
    pruned = next(trial for trial in study.trials if trial.state.name == "PRUNED")
    assert max(pruned.intermediate_values) < 20
    assert study.best_value > np.mean(list(pruned.intermediate_values.values()))


def test_successive_halving(load, capsys):
    agent, best = load("successive_halving").main(["--n-sets", "5", "--n-steps", "1"])
    assert agent.training_runner.update_step == 1 + 2  # of five sets two stay, and then one
    trained = agent.training_runner.hyperparams
    expected = best.actor_optimizer_params.learning_rate
    assert trained.actor_optimizer_params.learning_rate == pytest.approx(expected)
    assert trained.gamma == pytest.approx(best.gamma)
    assert "After 3 updates the best set returns" in capsys.readouterr().out


def test_self_play_keeps_a_pool_of_past_selves_and_plays_them(load, monkeypatch):
    script = load("self_play")
    monkeypatch.setattr(script.SelfPlay, "frequency", 2)
    config = AgentConfig(
        batch_size=16,
        rollout_length=12,
        actor_network=nn.Dense(4),
        critic_network=nn.Sequential((nn.Dense(1), jnp.squeeze)),
    )
    agent = script.SelfPlay(Opponents(Pennies(), 2), None, config, eval_during_training=False)
    runner = agent.start(jax.random.key(0), HyperParameters())
    past = [jax.tree.map(np.copy, runner.actor_training.params)] * 2
    for update in range(4):
        runner = agent.advance(runner, 1)
        if update % 2 == 0:
            past[update // 2] = jax.tree.map(np.copy, runner.actor_training.params)
        pool = jax.tree.map(lambda *x: np.stack(x), *past)
        jax.tree.map(np.testing.assert_array_equal, runner.extra, pool)

    bias = runner.extra["network"]["bias"]
    sure = bias + 100.0 * jnp.eye(4)[:2]  # the first of them always chooses 0, the other 1
    runner.extra["network"]["bias"] = sure
    _, traj, _ = jax.jit(agent._collect)(runner)
    met = [traj.reward == jnp.where(traj.action == choice, 1.0, -1.0) for choice in (0, 1)]
    games_of_three_steps = (np.asarray(x).reshape(4, 3, 16).all(axis=1) for x in met)
    first, second = games_of_three_steps
    assert (first | second).all()
    assert 0 < first.sum() < first.size
