"""Mistakes that users make, and the errors that they get."""
