"""Environments that live on the host: Gymnasium's, one or a vector of them, and PettingZoo's."""
