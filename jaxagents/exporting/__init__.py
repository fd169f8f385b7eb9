"""Policies as files: weights as safetensors, beside the program that acts by them."""

from jaxagents.exporting.policy import ExportedPolicy, load_policy
from jaxagents.exporting.writing import export_policy

__all__ = ["ExportedPolicy", "export_policy", "load_policy"]
