"""Foundations that everything stands on, and that import nothing else of the package."""
