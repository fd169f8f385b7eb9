"""The machinery of runs: programs, evaluation points, progress, interruption, sweeps."""
