#!/usr/bin/env bash
# sbatch launch/slurm.sh, in a copy of the examples that all nodes see.
#SBATCH --job-name=jaxagents
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1         # one process on each node; with GPUs, one for each of them
#SBATCH --cpus-per-task=16
#SBATCH --time=01:00:00
#SBATCH --requeue                   # started again if a node fails or the job is preempted,
#SBATCH --open-mode=append          # and the training goes on from its last checkpoint
#SBATCH --signal=TERM@60            # a minute before the end: a checkpoint is written
set -euo pipefail

# JAX reads the numbers of the processes and the address of the first one from Slurm's variables. If a
# process dies, the others end within half a minute, and srun with them.
srun --kill-on-bad-exit=1 python distributed_ppo.py --checkpoint-dir runs/shared "$@"
