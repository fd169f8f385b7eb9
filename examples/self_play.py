"""Self-play: PPO learns a pgx game only by playing against its own past versions."""

import argparse

import jax
import jax.numpy as jnp

import jaxagents
from jaxagents.envs import Opponents
from jaxagents.ppo import PPO, AgentConfig, HyperParameters


class SelfPlay(PPO):
    """PPO against past versions of itself, drawn from a pool for each game."""

    frequency = 10  # in updates; the current version then replaces the oldest

    def _create_runner(self, rng, hyperparams):
        runner = super()._create_runner(rng, hyperparams)
        n, params = self.episodes.env.n_opponents, runner.actor_training.params
        pool = jax.tree.map(lambda x: jnp.stack([x] * n), params)
        return runner.replace(extra=pool)

    def _rollout_environment(self, runner):
        def play(number, key, obs, allowed):
            params = jax.tree.map(lambda past: past[number], runner.extra)
            seen = {"observation": obs, "action_mask": allowed}
            policy = self._distribution(runner.actor_training, params, seen)
            return policy.sample(key)

        return self.episodes.env.against(play)

    def _learn(self, runner, traj, rngs):
        runner, numbers = super()._learn(runner, traj, rngs)
        n, params = self.episodes.env.n_opponents, runner.actor_training.params
        turn, rest = jnp.divmod(runner.update_step, self.frequency)
        place = jnp.where(rest == 0, turn % n, n)  # n: replace nothing

        def replaced(past, present):
            return past.at[place].set(present, mode="drop")

        pool = jax.tree.map(replaced, runner.extra, params)
        return runner.replace(extra=pool), numbers


def main(arguments: list[str] | None = None) -> None:
    """Trains, evaluates against random moves, and prints how often it wins and loses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--game", default="tic_tac_toe")
    parser.add_argument("--n-steps", type=int, default=200)
    args = parser.parse_args(arguments)
    env = Opponents(jaxagents.make(f"pgx:{args.game}"), 16)
    sizes = {"batch_size": 128, "rollout_length": 32, "minibatch_size": 32}
    agent = SelfPlay(env, None, AgentConfig(n_steps=args.n_steps, eval_frequency=50, **sizes))
    agent.train(jax.random.key(0), HyperParameters(gamma=1.0, ent_coeff=0.2))
    returns = agent.eval(jax.random.key(1), n_evals=1000)["returns"]
    print(f"Wins {(returns > 0).mean():.1%}, loses {(returns < 0).mean():.1%}.")


if __name__ == "__main__":
    main()
