"""Environments stepped on the host, from Gymnasium and PettingZoo."""
