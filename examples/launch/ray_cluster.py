"""Starts distributed_ppo.py on a Ray cluster: python launch/ray_cluster.py 2 /shared/run."""

import subprocess
import sys

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

PORT = 12345


@ray.remote(num_cpus=1)  # with GPUs: num_gpus=1
def work(coordinator: str, n_processes: int, process_id: int, checkpoint_dir: str) -> int:
    """Runs one process. JAX needs a new one that has not used JAX yet."""
    command = [sys.executable, "distributed_ppo.py", "--checkpoint-dir", checkpoint_dir]
    options = {"coordinator": coordinator, "n-processes": n_processes, "process-id": process_id}
    command += [f"--{name}={value}" for name, value in options.items()]
    return subprocess.run(command, check=False).returncode


def main() -> None:
    """Starts all processes, and restarts them if any of them fails."""
    n_processes, checkpoint_dir = int(sys.argv[1]), sys.argv[2]
    ray.init()
    for _ in range(10):
        nodes = [node for node in ray.nodes() if node["Alive"]]
        coordinator = f"{nodes[0]['NodeManagerAddress']}:{PORT}"
        running = []
        for process_id in range(n_processes):
            node = nodes[process_id % len(nodes)]["NodeID"]
            on_node = NodeAffinitySchedulingStrategy(node, soft=False)
            task = work.options(scheduling_strategy=on_node)
            running.append(task.remote(coordinator, n_processes, process_id, checkpoint_dir))
        if not any(ray.get(running)):
            return
    sys.exit("A process failed in each of ten attempts.")


if __name__ == "__main__":
    main()
