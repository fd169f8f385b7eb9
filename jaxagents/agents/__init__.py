"""Base classes of agents."""
