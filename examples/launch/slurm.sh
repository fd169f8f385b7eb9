#!/usr/bin/env bash
# sbatch launch/slurm.sh, in a copy of the examples that all nodes can access.
#SBATCH --job-name=jaxagents
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1         # one process per node; with GPUs, one per GPU
#SBATCH --cpus-per-task=16
#SBATCH --time=01:00:00
#SBATCH --requeue                   # if a node fails or the job is preempted, Slurm restarts it
#SBATCH --open-mode=append          # and the run continues from its last checkpoint
#SBATCH --signal=TERM@60            # write a checkpoint a minute before the time limit
set -euo pipefail

# JAX reads the process indices and the address of the first process from Slurm's variables. If a process
# dies, the others end within half a minute, and srun with them.
srun --kill-on-bad-exit=1 python distributed_ppo.py --checkpoint-dir runs/shared "$@"
