"""Checks shapes and types at run time in every test."""

from jaxtyping import install_import_hook

CHECKED = [
    "jaxagents.ops",
    "jaxagents.networks",
    "jaxagents.envs",
    "jaxagents.core.evaluation",
    "jaxagents.core.fitting",
    "jaxagents.core.on_policy",
    "jaxagents.core.optimizer",
    "jaxagents.core.ready_made",
]

install_import_hook(CHECKED, "beartype.beartype")
