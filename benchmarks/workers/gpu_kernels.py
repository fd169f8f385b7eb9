"""Counts the kernels that one update of PPO launches on a GPU, without needing one."""

import argparse
import importlib
import re
from collections.abc import Iterator
from typing import Any
from unittest import mock

import jax
import worker
from jax.experimental import topologies
from tasks import TASKS

H100 = """
gpu_device_info {
  cuda_compute_capability { major: 9 }
  core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98 threads_per_warp: 32
  threads_per_block_limit: 1024 threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  registers_per_block_limit: 65536 registers_per_core_limit: 65536
  shared_memory_per_block: 49152 shared_memory_per_block_optin: 232448 shared_memory_per_core: 233472
  l2_cache_size: 52428800 memory_bandwidth: 3352320000000 device_memory_size: 84942979072
}
platform_name: "CUDA"
runtime_version { major: 13 }
dnn_version_info { major: 9 minor: 10 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
STARTS_NOTHING = {
    "add-dependency",
    "after-all",
    "bitcast",
    "constant",
    "get-tuple-element",
    "opt-barrier",
    "parameter",
    "tuple",
}
PARTS = {  # by the function that contains the loop
    "collect": "rollout step",
    "collect_trajectories": "rollout step",
    "_values_at_once": "values",
    "scan_backwards": "advantages",
    "calculate_gae": "advantages",
    "fit": "epoch",
    "train_iteration": "epoch",
    "_epoch": "gradient step",
    "update_epoch": "gradient step",
}
ONCE = "once per update"

Counts = list[tuple[str, int, int]]
"""For each loop: the part it computes, how often it runs, and the kernels each time."""


def compiled(trainer: Any) -> str:
    """The text of a trainer's update, compiled for an H100."""
    options = {"platform": "cuda", "target_config": H100, "topology": "1x1x1"}
    device = topologies.get_topology_desc(**options).devices[0]
    place = jax.sharding.SingleDeviceSharding(device)
    with mock.patch.object(jax, "default_backend", return_value="gpu"):
        update, state = trainer.update()
        jitted = jax.jit(update, in_shardings=place, out_shardings=place, donate_argnums=0)
        lowered = jitted.trace(state).lower(lowering_platforms=("cuda",))
    return lowered.compile().as_text()


def kernels(program: str) -> Counts:
    """Counts the kernels, copies and library calls in each loop of a compiled program.

    Only the longest branch of a conditional counts. A loop with an unknown trip count counts once.
    """
    bodies, entry, found = {}, "", []
    for line in program.splitlines():
        if head := re.match(r"(ENTRY )?%?([\w.-]+) \(.*\{$", line):
            bodies[head[2]] = lines = []
            entry = head[2] if head[1] else entry
        elif operation := re.match(r"  .* = .*?\s([a-z][\w-]*)\(", line):
            lines.append((operation[1], line))

    def count(name: str, times: int) -> int:
        """Counts a computation without its loops, which are added to `found`."""
        total = 0
        for kind, line in bodies[name]:
            inner = {
                key: re.findall(r"[\w.-]+", names)
                for key, names in re.findall(r"(\w+)=\{?((?:%[\w.-]+(?:, )?)+)", line)
            }
            if kind == "while":
                known = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
                turns = times * (int(known[1]) if known else 1)
                place = len(found)
                found.append((part_of(line, program), turns, 0))
                conditions = 0 if known else count(*inner["condition"], turns)
                of_turn = count(*inner["body"], turns) + conditions
                found[place] = (*found[place][:2], of_turn)
            elif kind == "conditional":
                total += 1 + max(count(branch, times) for branch in branches(inner))
            elif kind == "call":
                total += count(*inner["to_apply"], times)
            elif kind not in STARTS_NOTHING and not kind.endswith("-done"):
                total += 1
        return total

    return [(ONCE, 1, count(entry, 1)), *found]


def branches(inner: dict[str, list[str]]) -> Iterator[str]:
    """The branches of a conditional."""
    for key in ("branch_computations", "true_computation", "false_computation"):
        yield from inner.get(key, ())


def part_of(loop: str, program: str) -> str:
    """The part of an update that a loop computes, from the function that contains it."""
    number = re.search(r"stack_frame_id=(\d+)", loop)
    for table, key in (
        ("StackFrames", "file_location_id"),
        ("FileLocations", "function_name_id"),
    ):
        entry = number and re.search(rf"^{table}\n(?:.+\n)*?{number[1]} (.*)", program, re.M)
        number = entry and re.search(rf"{key}=(\d+)", entry[1])
    entry = number and re.search(rf'^FunctionNames\n(?:.+\n)*?{number[1]} "(.*)"', program, re.M)
    name = entry[1].rpartition(".")[2] if entry else "a loop"
    return PARTS.get(name, name)


def main() -> None:
    """Prints one line of JSON."""
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--library", choices=("jaxagents", "rejax"), required=True)
    add("--environment", choices=TASKS, required=True)
    add("--envs", type=int, required=True, help="number of environments")
    args = parser.parse_args()
    trainer = importlib.import_module(f"{args.library}_ppo").Trainer(
        TASKS[args.environment], args.envs
    )
    worker.report(args.library, {"kernels": kernels(compiled(trainer))}, "gymnax")


if __name__ == "__main__":
    main()
