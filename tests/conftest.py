"""Checks shapes and types at run time in every test."""

import jax
import pytest
from jaxtyping import install_import_hook

CHECKED = [
    "jaxagents.ops",
    "jaxagents.networks",
    "jaxagents.envs",
    "jaxagents.learners.fitting",
    "jaxagents.learners.losses",
    "jaxagents.agents.hooks",
    "jaxagents.agents.on_policy",
    "jaxagents.agents.policy",
    "jaxagents.agents.rollout",
    "jaxagents.agents.targets",
    "jaxagents.learners.optimizer",
    "jaxagents.agents.ready_made",
]

jax.config.update("jax_num_cpu_devices", 8)  # some tests share work among them
pytest.register_assert_rewrite("suite")
install_import_hook(CHECKED, "beartype.beartype")


@pytest.fixture(scope="module")
def quick_compilation():
    """Compiles with few optimisations, for files that take longer to compile than to run.

    It is not for those that look at programs, or at what they compute bit for bit.
    """
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(autouse=True, scope="module")
def unload_programs():
    """Unloads what a file compiled: with all programs of all tests, a process runs out of mappings."""
    yield
    jax.clear_caches()
