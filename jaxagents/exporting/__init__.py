"""Policies as safetensors files, with their weights and compiled programs."""

from jaxagents.exporting.policy import ExportedPolicy, load_policy
from jaxagents.exporting.writing import export_policy

__all__ = ["ExportedPolicy", "export_policy", "load_policy"]
