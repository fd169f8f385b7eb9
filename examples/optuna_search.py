"""Tunes PPO on CartPole with Optuna, and prunes bad trials early.

    python examples/optuna_search.py --n-trials 20

This needs the extra `search`. Hyperparameters are traced, so all trials run one compiled program.
If you know the sets in advance, use `agent.sweep`, which trains them in parallel.
"""

import argparse

import gymnax
import jax
import optuna

from jaxagents import PPO
from jaxagents.callbacks import Callback, Progress
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams


class Pruning(Callback):
    """Reports each evaluation to a trial, and ends it if it is worse than most others."""

    def __init__(self, trial: optuna.Trial) -> None:
        self.trial = trial

    def on_point(self, progress: Progress) -> bool:
        self.trial.report(progress.metrics["returns"], progress.step)
        return self.trial.should_prune()


def suggest(trial: optuna.Trial) -> HyperParameters:
    """Hyperparameters suggested by a trial."""
    rate = trial.suggest_float("learning_rate", 1e-5, 1e-1, log=True)
    optimizer = OptimizerParams(learning_rate=rate, grad_clip=0.5)
    return HyperParameters(
        gamma=1.0 - trial.suggest_float("1 - gamma", 1e-3, 0.3, log=True),
        gae_lambda=trial.suggest_float("gae_lambda", 0.8, 1.0),
        ent_coeff=trial.suggest_float("ent_coeff", 1e-4, 0.1, log=True),
        actor_optimizer_params=optimizer,
        critic_optimizer_params=optimizer,
    )


def search(n_trials: int, n_steps: int) -> optuna.Study:
    """A study that maximises the mean return at the last evaluation."""
    config = AgentConfig(
        n_steps=n_steps, batch_size=16, rollout_length=64, eval_frequency=max(1, n_steps // 10)
    )
    agent = PPO(*gymnax.make("CartPole-v1"), config)

    def objective(trial: optuna.Trial) -> float:
        callbacks = [Pruning(trial)]
        key = jax.random.key(trial.number)
        _, metrics = agent.train(key, suggest(trial), progress=False, callbacks=callbacks)
        if metrics["update_step"][-1] < n_steps:
            raise optuna.TrialPruned
        return float(metrics["returns"][-1].mean())

    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=0),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=n_steps // 5),
    )
    study.optimize(objective, n_trials=n_trials)
    return study


def main(arguments: list[str] | None = None) -> optuna.Study:
    """Runs the search and prints the best trial."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-trials", type=int, default=20)
    parser.add_argument("--n-steps", type=int, default=60, help="updates per trial")
    options = parser.parse_args(arguments)
    study = search(options.n_trials, options.n_steps)
    states = [trial.state.name for trial in study.trials]
    print(f"{states.count('PRUNED')} of {len(states)} trials ended early.")
    print(f"The best returned {study.best_value:.1f} with {study.best_params}.")
    return study


if __name__ == "__main__":
    main()
