"""Foundations of the package; they import nothing else from it."""
