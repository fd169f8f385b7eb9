"""Measures PPO of jaxagents on several devices, and what these tell each other.

On a CPU, the environment variable JAX_NUM_CPU_DEVICES says how many devices there are.
"""

import argparse
import json
import math
import re
import statistics
import time
from typing import Any

import jax
import numpy as np
import process
from jaxagents_ppo import Trainer
from tasks import CARTPOLE

from jaxagents.running.programs import OnMesh
from jaxagents.sharding import make_mesh

N_GROUPS = 8
N_CALLS = 5
ALL_REDUCE = re.compile(r"= (\(.*?\)|\S+) all-reduce(?:-start)?\(")
NUMBERS = re.compile(r"(f32|u32|s32|pred)\[([\d,]*)\]")
BYTES = {"f32": 4, "u32": 4, "s32": 4, "pred": 1}


def main() -> None:
    """Measures, and prints one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", type=int, required=True)
    parser.add_argument("--envs", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    trainer = Trainer(CARTPOLE, args.envs, n_groups=N_GROUPS)
    program = OnMesh(trainer.agent, make_mesh(args.devices))
    seconds = seconds_of_an_update(program, trainer.hyperparams, args.seconds)
    lowered = program.lowered_advance(jax.random.key(0), trainer.hyperparams)
    result = {
        "library": "jaxagents",
        "versions": process.versions("jaxagents", "gymnax"),
        "steps_per_second": args.envs * CARTPOLE.rollout_length / seconds,
        "update_seconds": seconds,
        **communication(lowered.compile().as_text()),
    }
    print(json.dumps(result))


def seconds_of_an_update(program: OnMesh, hyperparams: Any, seconds: float) -> float:
    """The median over calls of about that length, after compilation."""
    runner = program.start(jax.random.key(0), hyperparams)

    def timed(runner: Any, n_updates: int) -> tuple[Any, float]:
        began = time.perf_counter()
        runner = jax.block_until_ready(program.advance(runner, np.int32(n_updates)))
        return runner, (time.perf_counter() - began) / n_updates

    for n_updates in (1, 2):
        runner, steady = timed(runner, n_updates)
    n_updates = max(1, math.ceil(seconds / steady))
    found = []
    for _ in range(N_CALLS):
        runner, elapsed = timed(runner, n_updates)
        found.append(elapsed)
    return statistics.median(found)


def communication(program: str) -> dict[str, int]:
    """Number and bytes of the all-reduces in a compiled update, each as often as the program names it.

    They are of minibatches, and made once for each minibatch step.
    """
    operands = ALL_REDUCE.findall(program)
    sizes = [
        BYTES[kind] * math.prod(int(n) for n in shape.split(",") if n)
        for operand in operands
        for kind, shape in NUMBERS.findall(operand)
    ]
    return {"all_reduces": len(operands), "all_reduced_bytes": sum(sizes)}


if __name__ == "__main__":
    main()
