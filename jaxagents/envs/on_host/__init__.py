"""Environments stepped on the host: those of Gymnasium, vectorised or not, and PettingZoo."""
