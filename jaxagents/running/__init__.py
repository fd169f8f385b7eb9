"""What drives a training: programs, points, progress, interruption, sweeps."""
