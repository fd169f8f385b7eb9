"""Measures PPO of jaxagents with one of the ideas that make it fast switched off, or another tried."""

import argparse
import copy
import functools
import json
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest import mock

import growth
import jax
import jax.numpy as jnp
import numpy as np
import optax
import process

from jaxagents import PPO, ops
from jaxagents.agents import on_policy
from jaxagents.agents.on_policy import OnPolicyBase
from jaxagents.envs import episodes
from jaxagents.envs.episodes import Episodes
from jaxagents.learners import fitting
from jaxagents.networks import dense
from jaxagents.ops import distributions, minibatches
from jaxagents.running import sweeps
from jaxagents.running.programs import OnDevice


def main() -> None:
    """Measures, and prints one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--change", choices=CHANGES, help="what is changed, if anything")
    parser.add_argument("--envs", type=int, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    if args.change:
        CHANGES[args.change]()
    agent = growth.make_agent(args.envs)
    train = training_of(agent) if args.seeds == 1 else training_of_seeds(agent, args.seeds)
    _, seconds = growth.seconds_of_an_update(train, args.seconds)
    n_steps = args.seeds * args.envs * agent.config.rollout_length
    result = {
        "library": "jaxagents",
        "versions": process.versions("jaxagents", "gymnax"),
        "steps_per_second": n_steps / seconds,
    }
    print(json.dumps(result))


def training_of(agent: PPO) -> growth.Train:
    """Trains afresh."""

    def train(n_updates: int) -> Any:
        runner = agent.start(jax.random.key(0), growth.HYPERPARAMS)
        return agent.advance(runner, np.int32(n_updates))

    return train


def training_of_seeds(agent: PPO, n_seeds: int) -> growth.Train:
    """Trains several seeds afresh."""

    def train(n_updates: int) -> Any:
        rngs = jax.random.split(jax.random.key(0), n_seeds)
        found = agent.sweep(rngs, growth.HYPERPARAMS, n_steps=n_updates, progress=False)
        return found.runners

    return train


def replace(owner: Any, name: str, other: Any) -> None:
    """Replaces an attribute that there is."""
    getattr(owner, name)
    setattr(owner, name, other)


# Ideas that are switched off.


def plain_dense() -> None:
    """Flax's dense layers with the gradients that XLA makes, for `networks.Dense`."""
    dense.Dense.keywords.clear()


def no_transposed_copy() -> None:
    """Products with transposed rows, for those with a transposed copy, in the gradient of weights."""
    replace(dense, "_TALL", math.inf)


def no_products_by_column() -> None:
    """A product with all columns, for products with each of a few."""
    replace(dense, "_NARROW", 0)


def no_sums() -> None:
    """Products by a library also where they are small, for multiplications and sums."""
    replace(dense, "_SMALL", 0)


def whole_minibatches() -> None:
    """Gradients of all samples of a minibatch at once, for those of parts of it."""
    replace(fitting, "_SAMPLES_OF_A_PART", math.inf)


def two_loops() -> None:
    """A loop for the actor and one for the critic, for one of both."""
    fit = on_policy.fit

    def fit_in_turn(fits: Any, rng: Any, **sizes: Any) -> Any:
        return [fit([network], rng, **sizes)[0] for network in fits]

    replace(on_policy, "fit", fit_in_turn)


def sorted_shuffle() -> None:
    """`jax.random.permutation`, which sorts, for `ops.random_bijection`."""

    def permutation(seed: Any, n: int) -> Any:
        return jax.random.permutation(jax.random.wrap_key_data(seed), n)

    replace(minibatches, "random_bijection", permutation)


def reset_in_every_step() -> None:
    """Resets in every step, for those in steps in which an episode ended."""

    def restart(self: Episodes, over: Any, keys: Any, played_on: Any) -> Any:
        def select(restarted: Any, played_on: Any) -> Any:
            return jnp.where(over.reshape(-1, *[1] * (restarted.ndim - 1)), restarted, played_on)

        return jax.tree.map(select, jax.vmap(self.reset)(keys), played_on)

    replace(Episodes, "_restart", restart)


def resets_of_all() -> None:
    """Resets of all environments at once, for those of a few at a time."""
    replace(episodes, "_MANY_ENVIRONMENTS", math.inf)


def values_in_each_step() -> None:
    """Values of one step after the other, for those of a minibatch at once."""
    replace_values(lambda values, obs: jax.lax.map(jax.vmap(values), obs))


def values_at_once() -> None:
    """Values of the whole rollout at once, for those of a minibatch."""
    replace_values(lambda values, obs: jax.vmap(jax.vmap(values))(obs))


def replace_values(values_of: Callable[[Callable, Any], Any]) -> None:
    """Replaces how the values of a rollout are computed from the value of an observation."""

    def with_targets(self: OnPolicyBase, runner: Any, traj: Any) -> Any:
        critic, hyperparams = runner.critic_training, runner.hyperparams
        values = functools.partial(self._value, critic, critic.params)
        value, next_value = values_of(values, traj.obs), values_of(values, traj.next_obs)
        how = (traj.terminated, traj.truncated, hyperparams.gamma, hyperparams.gae_lambda)
        return traj._replace(
            value=value,
            next_value=next_value,
            advantage=ops.generalised_advantages(traj.reward, value, next_value, *how),
            target=ops.lambda_returns(traj.reward, next_value, *how),
        )

    replace(OnPolicyBase, "_with_targets", with_targets)


def noise_in_each_step() -> None:
    """Random numbers of actions that each step draws, for those of the whole rollout at once."""
    replace(on_policy, "_MOST_NOISE", -1)


def keys_in_each_step() -> None:
    """Random keys that each step splits, for those that are split for the whole rollout at once."""
    rollout = OnPolicyBase._rollout

    def in_single_steps(self: OnPolicyBase, runner: Any, rng: Any) -> tuple[Any, Any]:
        def step(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], Any]:
            runner, rng = carry
            rng, step_rng = jax.random.split(rng)
            runner, traj = rollout(single, runner, step_rng)
            return (runner, rng), traj

        single = copy.copy(self)
        object.__setattr__(single, "config", self.config.replace(rollout_length=1))
        (runner, _), traj = jax.lax.scan(step, (runner, rng), length=self.config.rollout_length)
        return runner, jax.tree.map(lambda x: x[:, 0], traj)

    replace(OnPolicyBase, "_rollout", in_single_steps)


def indexed_log_prob() -> None:
    """An indexed read, for the one-hot choice of an action's log-probability."""

    def log_prob(self: ops.Categorical, action: Any) -> Any:
        log_probs = jax.nn.log_softmax(self.logits)
        return jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]

    replace(ops.Categorical, "log_prob", log_prob)


def reduced_actions() -> None:
    """XLA's reductions over actions, for sums of one after the other."""
    replace(distributions, "_FEW_ACTIONS", 0)


def policy_twice() -> None:
    """Log-probabilities and entropies of a policy that is applied for each, for one application."""

    def entropy(self: PPO, training: Any, obs: Any) -> Any:
        return self._distribution(training, training.params, obs).entropy()

    replace(PPO, "_entropy", entropy)


def call_for_each_update() -> None:
    """A call of a compiled function for each update, for a compiled loop of all of them."""

    advance_by = OnDevice.advance

    def advance(self: OnDevice, runner: Any, n_updates: Any) -> Any:
        for _ in range(n_updates):
            runner = advance_by(self, runner, np.int32(1))
        return runner

    replace(OnDevice, "advance", advance)


def seeds_by_vmap() -> None:
    """All seeds in one program by `jax.vmap`, for the program of a single seed on each core."""

    def members(agent: PPO, n_members: int) -> Any:
        return nullcontext(sweeps.MembersOnDevices(agent, jax.devices()))

    replace(sweeps, "_members", members)


# Others that are tried.


def unrolled_rollout() -> None:
    """Rollouts whose loop makes four steps at a time."""
    replace(OnPolicyBase, "_rollout", unrolled(OnPolicyBase._rollout))


def unrolled_minibatches() -> None:
    """Epochs that make their gradient steps without a loop."""
    replace(OnPolicyBase, "_learn", unrolled(OnPolicyBase._learn))


def unrolled(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method whose loops are unrolled by four."""

    def call(*args: Any) -> Any:
        with mock.patch.object(jax.lax, "scan", functools.partial(jax.lax.scan, unroll=4)):
            return method(*args)

    return call


def flat_optimizer() -> None:
    """An optimizer of one vector of all parameters, for one of every array of them."""
    make_optimizer, flattened = on_policy.make_optimizer, functools.cache(optax.flatten)
    on_policy.make_optimizer = lambda *args: flattened(make_optimizer(*args))


def other_generator() -> None:
    """XLA's own generator of random numbers, for Threefry."""
    jax.config.update("jax_default_prng_impl", "rbg")


CHANGES = {
    "fit": two_loops,
    "columns": no_products_by_column,
    "small": no_sums,
    "parts": whole_minibatches,
    "values-at-once": values_at_once,
    "dense": plain_dense,
    "transposed": no_transposed_copy,
    "shuffle": sorted_shuffle,
    "reset": reset_in_every_step,
    "turns": resets_of_all,
    "values": values_in_each_step,
    "noise": noise_in_each_step,
    "keys": keys_in_each_step,
    "few": reduced_actions,
    "one-hot": indexed_log_prob,
    "policy": policy_twice,
    "loop": call_for_each_update,
    "seeds": seeds_by_vmap,
    "unrolled-rollout": unrolled_rollout,
    "unrolled-minibatches": unrolled_minibatches,
    "flat": flat_optimizer,
    "generator": other_generator,
}

if __name__ == "__main__":
    main()
