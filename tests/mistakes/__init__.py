"""Mistakes that users make, and the errors that tell them so."""
