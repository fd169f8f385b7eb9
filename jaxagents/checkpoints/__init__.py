"""Checkpoints: how they are written, kept, verified and read."""
