"""The machinery of trainings: programs, points, progress, interruption, sweeps."""
