"""How tests run: types checked, programs compiled quickly, work shared among processes."""

import functools
import math
import os
from pathlib import Path

# Few optimisations and the simpler of two code generators, here and in processes that tests start.
# Programs are kept for later runs, by what is compiled, how and for which machine; `make clean` drops
# them. `JAX_DISABLE_MOST_OPTIMIZATIONS=0 XLA_FLAGS= make test` compiles all as for users.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "programs")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

import jax
import pytest
from jax._src import compiler
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
LONG = [
    "tests/test_processes.py",
    "tests/examples/test_examples.py",
    "tests/examples/test_host_examples.py",
    "tests/examples/test_distributed_examples.py",
    "tests/test_cli.py",
]

jax.config.update("jax_num_cpu_devices", 8)  # some tests share work among them
pytest.register_assert_rewrite("suite")
install_import_hook(CHECKED, "beartype.beartype")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Groups the tests that share programs, for one process each, and puts long ones first.

    The tests of a file share some, and those of an agent, but not those of the files in `LONG`.
    """
    files = {}
    for item in items:
        files.setdefault(item.path, item.path.relative_to(config.rootpath).as_posix())
        if files[item.path] not in LONG and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(files[item.path]))
    order = {path: (name not in LONG, i) for i, (path, name) in enumerate(files.items())}
    items.sort(key=lambda item: (*order[item.path], is_optimised(item)))


QUICK = jax.config.read("jax_disable_most_optimizations")
KEPT_AFTER = jax.config.jax_persistent_cache_min_compile_time_secs
get_compile_options = compiler.get_compile_options


def is_optimised(item):
    """Whether a test is compiled as for users."""
    return item.get_closest_marker("optimised") is not None


def pytest_runtest_setup(item):
    """Changes the way of compiling between tests that differ in it, and forgets what was compiled."""
    quick = QUICK and not is_optimised(item)
    if quick != jax.config.read("jax_disable_most_optimizations"):
        kept_after = KEPT_AFTER if quick else math.inf
        jax.config.update("jax_persistent_cache_min_compile_time_secs", kept_after)
        jax.config.update("jax_disable_most_optimizations", quick)
        compiler.get_compile_options = get_compile_options if quick else options_of_users
        jax.clear_caches()


@functools.wraps(get_compile_options)
def options_of_users(*args, env_options_overrides=None, **kwargs):
    """The compiler's options, with what the flags above turn off."""
    options = {"xla_cpu_use_fusion_emitters": True, **(env_options_overrides or {})}
    return get_compile_options(*args, env_options_overrides=options, **kwargs)


@pytest.fixture(autouse=True, scope="module")
def unload_programs():
    """Unloads what a file compiled: with all programs of all tests, a process runs out of mappings."""
    yield
    jax.clear_caches()
