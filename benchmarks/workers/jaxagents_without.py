"""Measures jaxagents without one of its optimisations.

The library has no switches for them: plain code replaces each one before anything is compiled.
"""

import argparse
import functools
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jaxagents_ppo
import jaxagents_recurrent
import measure
import numpy as np
import recurrent
import worker

from jaxagents.agents import on_policy, targets
from jaxagents.core.arrays import select
from jaxagents.envs.episodes import Episodes
from jaxagents.learners import fit
from jaxagents.networks import dense
from jaxagents.networks import recurrent as memories
from jaxagents.networks.vision import AtariEncoder, convolution
from jaxagents.ops import discrete, minibatches

UNLIMITED = 10**9
IMAGES = "images"
N_BATCHES, BATCH = 2, 256
IMAGE = 84, 84, 4


def replace(place: Any, name: str, plain: Any) -> Callable[[], None]:
    """A function that replaces an attribute by plain code."""
    return functools.partial(setattr, place, name, plain)


def fit_one_by_one(fits: Any, rngs: Any, *, share: Any, **options: Any) -> list[Any]:
    """Fits networks one after the other, unless they share a trunk."""
    if share is not None:
        return fit.fit(fits, rngs, share=share, **options)
    return [fit.fit([one], rngs, **options)[0] for one in fits]


def sort(seed: Any, n: int) -> jax.Array:
    """A random permutation by a sort."""
    return jax.random.permutation(jax.random.wrap_key_data(seed), n)


def reset_all(self: Episodes, over: Any, keys: Any, current: Any) -> Any:
    """Resets all environments in every step, and uses the new states where an episode is over."""
    return jax.vmap(select)(over, jax.vmap(self.reset)(keys), current)


def value_all(agent: Any, critic: Any, traj: Any) -> Any:
    """Computes the value of the next state of every step."""
    value, next_value = jax.lax.map(
        lambda at_t: [agent._values(critic, obs) for obs in at_t],
        [traj.obs, traj.next_obs],
        batch_size=targets.steps_valued_at_once(agent.config),
    )
    return traj._replace(value=value, next_value=next_value)


def sweep_vmapped(self: Any, rngs: Any, sets: dict[str, Any], n_updates: int) -> Any:
    """Trains several seeds in one vmapped program."""
    return jax.block_until_ready(advance_all(self, rngs, np.int32(n_updates)))


@functools.partial(jax.jit, static_argnums=0)
def advance_all(trainer: Any, rngs: Any, n_updates: Any) -> Any:
    """The runners of all seeds after `n_updates` updates."""
    agent, hyperparams = trainer.agent, trainer.hyperparams
    return jax.vmap(lambda rng: agent.advance(agent.start(rng, hyperparams), n_updates))(rngs)


WITHOUT = {
    "parts": replace(fit, "_SAMPLES_OF_A_PART", UNLIMITED),
    "one-loop": replace(on_policy, "fit", fit_one_by_one),
    "narrow": replace(dense, "_NARROW", 0),
    "small": replace(dense, "_SMALL", 0),
    "bijection": replace(minibatches, "random_bijection", sort),
    "resets": replace(Episodes, "_restart", reset_all),
    "successors": replace(targets, "_values_at_once", value_all),
    "few-actions": replace(discrete, "_FEW_ACTIONS", 0),
    "gates": replace(memories, "unrolls_gates", lambda cell: False),
    "cores": replace(jaxagents_ppo.Trainer, "_sweep", sweep_vmapped),
    "convolutions": replace(
        convolution,
        "_cpu_convolve_with_gradients",
        lambda x, kernel, stride, padding: convolution._xla_convolve(x, kernel, stride, padding),
    ),
}


def time_images() -> None:
    """Times gradient steps of an Atari network on random images."""
    network, rng = AtariEncoder(), np.random.default_rng(0)
    images = rng.integers(0, 256, (N_BATCHES, BATCH, *IMAGE), dtype=np.uint8)
    params = network.init(jax.random.key(0), images[0, 0])

    def loss(params: Any, images: Any) -> jax.Array:
        return jnp.square(jax.vmap(functools.partial(network.apply, params))(images)).mean()

    def step(params: Any, images: Any) -> tuple[Any, None]:
        grads = jax.grad(loss)(params, images)
        return jax.tree.map(lambda x, grad: x - 1e-4 * grad, params, grads), None

    @jax.jit
    def train_all(params: Any) -> Any:
        return jax.lax.scan(step, params, images)[0]

    def train() -> None:
        jax.block_until_ready(train_all(params))

    first, steady = worker.seconds(train), worker.seconds(train)
    found = {"compile_seconds": first - steady, "steps_of_a_turn": N_BATCHES * BATCH}
    worker.report("jaxagents", found)
    worker.take_turns(train)


def main() -> None:
    """Measures images, recurrent PPO, or PPO."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--without", choices=WITHOUT)
    parser.add_argument("--work", choices=("ppo", "recurrent", IMAGES), default="ppo")
    args, rest = parser.parse_known_args()
    if args.without:
        WITHOUT[args.without]()
    sys.argv[1:] = rest
    if args.work == IMAGES:
        time_images()
    elif args.work == "recurrent":
        recurrent.main("jaxagents", jaxagents_recurrent.make)
    else:
        measure.main("jaxagents", jaxagents_ppo.Trainer)


if __name__ == "__main__":
    main()
