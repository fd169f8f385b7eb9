import argparse
import functools

import jax
import jax.numpy as jnp
import nbformat
import numpy as np
import pytest
from flax import linen as nn
from PIL import Image
from probes import Pennies
from safetensors.numpy import load_file

from jaxagents import load_policy
from jaxagents.envs import Opponents
from jaxagents.ppo import AgentConfig, HyperParameters


def test_cartpole_script(load, check_files, refuses, tmp_path, capsys):
    output = tmp_path / "run"
    argv = ["--output", str(output), "--n-steps", "1", "--n-seeds", "2", "--n-evals", "5"]
    script = load("cartpole_ppo")
    results = script.main(argv)

    metrics = results["metrics"]
    np.testing.assert_array_equal(metrics["update_step"], range(2))
    assert metrics["returns"].shape == (2, 32)
    assert np.all((metrics["returns"] >= 1) & (metrics["returns"] <= 500))
    assert np.isnan(metrics["actor_loss"][0])
    assert np.isfinite(metrics["actor_loss"][1:]).all()
    assert results["episodes"]["returns"].shape == (5,)
    assert np.isfinite(results["episodes"]["returns"]).all()

    jax.tree.map(
        np.testing.assert_array_equal,
        results["last"].actor_training.params,
        results["runner"].actor_training.params,
    )
    assert results["identical"]
    assert results["resumed"].update_step == 2

    assert results["by_seed"]["returns"].shape == (2, 2, 32)
    assert results["by_learning_rate"]["returns"].shape == (3, 2, 32)
    sweep = results["sweep"]
    assert sweep.metrics["returns"].shape == (3, 2, 2, 32)
    assert sweep.best_hyperparams.actor_optimizer_params.learning_rate == pytest.approx(
        script.LEARNING_RATES[sweep.best]
    )
    assert results["record"]["obs"].shape == (500, 4)
    assert results["record"]["done"].any()

    check_files(output, "learning_curve.png", "sweep.png", "episode.png")
    check_files(output, "config.json", "hyperparameters.json", "metrics.jsonl")
    assert "Identical to 2 updates without interruption: True" in capsys.readouterr().out
    refuses(script, argv)


@pytest.mark.parametrize("options", [[], ["--ready-made"]], ids=["own policy", "ready-made"])
def test_pursuit_script(options, load, check_files, tmp_path, monkeypatch):
    output = tmp_path / "run"
    script = load("pursuit_ippo")
    monkeypatch.setattr(script, "MAX_EPISODE_STEPS", 60)
    animate = functools.partial(script.animate, hold_frames=2)
    monkeypatch.setattr(script, "animate", lambda positions, path: animate(positions[:8], path))
    sizes = ["--output", str(output), "--n-steps", "2", "--n-matches", "6"]
    results = script.main([*options, *sizes])

    metrics = results["metrics"]
    assert metrics["returns"].shape == (3, 64, 2)
    np.testing.assert_allclose(metrics["returns"].sum(axis=-1), 0.0, atol=1e-4)
    assert metrics["terminated"].shape == (3, 64)
    if options:
        assert "catch_rate" not in metrics
    else:
        np.testing.assert_allclose(metrics["catch_rate"], metrics["terminated"].mean(axis=1))
    assert results["runner"].update_step == 2

    assert len(results["matches"]) == 6
    for match in results["matches"].values():
        assert match["positions"].shape == (6, 61, 2, 2)
        assert np.abs(match["positions"]).max() <= 5.0 + 1e-5
    pure_pursuit = results["matches"]["straight at the evader", "random"]
    assert pure_pursuit["caught"].all()
    for positions, seconds in zip(pure_pursuit["positions"], pure_pursuit["seconds"], strict=True):
        distances = np.linalg.norm(positions[:, 0] - positions[:, 1], axis=-1)
        assert distances[round(seconds / 0.05)] <= 0.4 + 1e-5
    assert not results["matches"]["random", "random"]["caught"].all()

    check_files(output, "learning.png", "trajectories.png")
    with Image.open(output / "pursuit.gif") as animation:
        assert animation.n_frames > 1


@pytest.fixture
def minatar(load, monkeypatch):
    script = load("minatar_dqn")
    for name, size in {"BUFFER_SIZE": 160, "LEARNING_STARTS": 40, "MAX_STEPS": 60}.items():
        monkeypatch.setattr(script, name, size)
    return script


def test_minatar_script(minatar, check_files, refuses, tmp_path, capsys):
    output = tmp_path / "run"
    argv = ["--output", str(output), "--n-steps", "80"]
    results = minatar.main(argv)

    np.testing.assert_array_equal(results["metrics"]["update_step"], range(11))
    assert results["metrics"]["returns"].shape == (11, 32)
    assert np.isfinite(results["metrics"]["critic_loss"][1:]).all()
    means = results["metrics"]["returns"].mean(axis=1)
    assert means[results["runner"].update_step] == means.max()
    n_frames = len(results["frames"])
    assert 1 < n_frames < 60  # it misses the ball before

    check_files(output, "learning_curve.png", "episode.gif", "config.json", "metrics.jsonl")
    with Image.open(output / "episode.gif") as film:
        assert 1 < film.n_frames <= n_frames
    assert "Mean return after 80 steps" in capsys.readouterr().out
    refuses(minatar, argv)


def test_minatar_games_and_agents(minatar, tmp_path):
    for game in minatar.GAMES:
        options = argparse.Namespace(env=game, agent="dqn", n_steps=80, output=tmp_path)
        agent = minatar.make_agent(options)
        _, obs, _ = jax.eval_shape(agent.env_reset, jax.random.key(0))
        assert obs.shape[:2] == (10, 10)
    for name, (_, agent_class) in minatar.AGENTS.items():
        options.agent = name
        assert type(minatar.make_agent(options)) is agent_class
        minatar.make_hyperparams(options).check_ranges()


def test_risk_averse_script(load, check_files, refuses, tmp_path, capsys):
    lake, output = load("risk_averse_qrdqn"), tmp_path / "run"
    argv = ["--output", str(output), "--n-steps", "80", "--n-evals", "20"]
    results = lake.main(argv)
    assert list(results) == ["QRDQN", "RiskAverseQRDQN"]
    for result in results.values():
        assert result["returns"].shape == (20,)
        assert 0.0 <= sum(result["shares"]) <= 1.0
        assert result["quantiles"].shape == (2, 51)
    quantiles = {name: result["quantiles"] for name, result in results.items()}
    values = {name: result["values"] for name, result in results.items()}
    np.testing.assert_allclose(values["QRDQN"], quantiles["QRDQN"].mean(axis=1), rtol=1e-4)
    worst = quantiles["RiskAverseQRDQN"][:, :12].mean(axis=1)
    np.testing.assert_allclose(values["RiskAverseQRDQN"], worst, rtol=1e-4)

    check_files(output, "quantiles.png")
    assert "along the shore" in capsys.readouterr().out
    refuses(lake, argv)


def test_the_ways_around_the_lake(load):
    lake = load("risk_averse_qrdqn")

    def walk(key, action):
        def step(carry, key):
            place, over = carry
            _, place, reward, ends, _ = lake.Lake().step_env(key, place, action, params)
            return (place, over | ends), jnp.where(over, 0.0, reward)

        _, start = lake.Lake().reset_env(key, params)
        carry = (start, jnp.zeros((), bool))
        (_, over), rewards = jax.lax.scan(step, carry, jax.random.split(key, lake.N_SHORE))
        return rewards.sum(), over

    params = lake.LakeParams()
    keys = jax.random.split(jax.random.key(0), 5_000)
    returns, over = jax.vmap(jax.vmap(walk, (0, None)), (None, 0))(keys, jnp.arange(2))
    assert over.all()
    exact = lake.true_quantiles((np.arange(5_000) + 0.5) / 5_000, params)
    np.testing.assert_array_equal(returns[1], exact[1])
    np.testing.assert_allclose(np.mean(returns[0]), exact[0].mean(), atol=0.5)
    assert set(np.unique(returns[0])) == set(np.unique(exact[0]))
    bridge, shore = exact
    assert bridge.mean() > shore.mean()
    assert bridge[:1_250].mean() < shore[:1_250].mean()


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
    assert "After 3 updates the best plays" in capsys.readouterr().out


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
