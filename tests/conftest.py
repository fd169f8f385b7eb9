"""How tests run: types checked, programs compiled quickly, work shared among processes."""

import functools
import gc
import math
import os
from importlib.metadata import version
from pathlib import Path

# Few optimisations, none of loops, and the simpler of two code generators, here and in processes that
# tests start. Programs are kept for later runs, by what is compiled, how and for which machine;
# `make clean` drops them. `JAX_DISABLE_MOST_OPTIMIZATIONS=0 XLA_FLAGS= make test` compiles all as for
# users.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_cpu_parallel_codegen_split_count=1"
    " --xla_disable_hlo_passes=simplify-while-loops,small-while-loop-hoisting"
    ",while-loop-constant-sinking,while-loop-invariant-code-motion"
    + " --xla_cpu_use_fusion_emitters=false"  # newer XLA ends a process that is given this
    * (tuple(map(int, version("jaxlib").split(".")[:3])) < (0, 11, 1)),
)
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "programs")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")  # which profiles would show

import equal_programs
import jax
import pytest
import quick_bits
import shared_contexts
from checking import check_types
from jax._src import compiler
from speeds import WHOLLY_SLOW, wholly_slow
from xdist.scheduler import LoadScopeScheduling

CHECKED = [
    "jaxagents.ops",
    "jaxagents.networks",
    "jaxagents.envs",
    "jaxagents.learners.fit",
    "jaxagents.learners.losses",
    "jaxagents.agents.on_policy",
    "jaxagents.agents.policy",
    "jaxagents.agents.collect",
    "jaxagents.agents.targets",
    "jaxagents.agents.fits",
    "jaxagents.learners.optimizer",
    "jaxagents.agents.ready_made",
]
LONG = [
    "tests/examples/test_guides.py",
    "tests/test_processes.py",
    "tests/examples/test_examples.py",
    "tests/examples/test_host_examples.py",
    "tests/examples/test_distributed_examples.py",
    "tests/test_cli.py",
    "tests/benchmarks/test_benchmarks.py",
]
PAGES = "tests/examples/test_guides.py"
"""Those of a folder share programs, long as they are."""

MOST_MAPPINGS = 10_000

gc.freeze()  # of what is imported, nothing is garbage
gc.set_threshold(100_000, 50, 50)  # by default, collections take an eighth of the time
jax.config.update("jax_numpy_rank_promotion", "raise")  # users may have it so, to find mistakes
jax.config.update("jax_num_cpu_devices", 8)  # some tests share work among them
pytest.register_assert_rewrite("suite")
check_types(CHECKED)


class Scheduling(LoadScopeScheduling):
    """Gives tests that share programs to one process: those of a file, or of an agent or learner."""

    def _split_scope(self, nodeid):
        file, _, test = nodeid.partition("::")
        if file == PAGES:
            return str(Path(nodeid).parent)
        if file in LONG:
            return nodeid
        return file + test.partition("[")[2] if is_suite(file) else file


def is_suite(file):
    """Whether tests of a file are the same for every agent or learner."""
    return file.endswith(("_agents.py", "test_learners.py"))


def pytest_itemcollected(item):
    """Marks as slow what a test takes beside the parameters that `slow_except` names."""
    quick = item.get_closest_marker("slow_except")
    if quick and not any(f"-{name}-" in f"-{item.callspec.id}-" for name in quick.args):
        item.add_marker("slow")


def pytest_xdist_make_scheduler(config, log):
    """Has tests shared out as above."""
    return Scheduling(config, log)


def pytest_collection_modifyitems(config, items):
    """Puts the longest first, and within a file the tests that are compiled in one way together.

    It also notes for `tests/test_speeds.py` which tests are slow though some should be quick.
    """
    config.stash[WHOLLY_SLOW] = wholly_slow(items)

    def place(item):
        file = item.path.relative_to(config.rootpath).as_posix()
        return file not in LONG, not is_suite(file), file, is_optimised(item)

    items.sort(key=place)


AS_FOR_USERS = {"xla_cpu_use_fusion_emitters": True, "xla_disable_hlo_passes": ""}
QUICK = jax.config.read("jax_disable_most_optimizations")
KEPT_AFTER = jax.config.jax_persistent_cache_min_compile_time_secs
PROFILING_RUNS = jax.config.jax_pgle_profiling_runs
get_compile_options = compiler.get_compile_options
draws_quickly = QUICK
quick_bits.choose(lambda: draws_quickly)
equal_programs.share()
shared_contexts.share()


def is_optimised(item):
    """Whether a test is compiled as for users."""
    return item.get_closest_marker("optimised") is not None


def pytest_runtest_setup(item):
    """Changes the way of compiling between tests that differ in it, which keeps the programs of each."""
    global draws_quickly
    quick = QUICK and not is_optimised(item)
    draws_quickly = quick and item.get_closest_marker("bits_of_jax") is None
    jax.config.update(
        "jax_persistent_cache_min_compile_time_secs", KEPT_AFTER if quick else math.inf
    )
    jax.config.update("jax_disable_most_optimizations", quick)
    compiler.get_compile_options = get_compile_options if quick else options_of_users
    # Programs in memory are told apart by this number, which nothing else reads without profiles.
    jax.config.update("jax_pgle_profiling_runs", PROFILING_RUNS + 2 * quick + draws_quickly)


@functools.wraps(get_compile_options)
def options_of_users(*args, env_options_overrides=None, **kwargs):
    """The compiler's options, with all that the flags above turn off."""
    flags = os.environ["XLA_FLAGS"]
    options = {name: value for name, value in AS_FOR_USERS.items() if name in flags}
    options |= env_options_overrides or {}
    return get_compile_options(*args, env_options_overrides=options, **kwargs)


@pytest.fixture(autouse=True, scope="module")
def unload_programs():
    """Unloads programs before a process runs out of memory, or of the mappings that Linux allows.

    Until then the garbage collector, which every checkpoint calls, passes over what earlier files left.
    """
    gc.freeze()
    yield
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > MOST_MAPPINGS:
        jax.clear_caches()
        equal_programs.release()
        shared_contexts.release()
        gc.unfreeze()
        gc.collect()
