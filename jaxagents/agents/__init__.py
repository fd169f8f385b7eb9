"""The bases of agents."""
