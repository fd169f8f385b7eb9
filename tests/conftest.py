"""How tests run: types checked, programs compiled quickly, work shared among processes."""

import gc
import os
from pathlib import Path

# Compiling is most of the time of tests, so it optimises little, here and in processes that tests start.
# It is the one way in which programs of tests differ from those of users, and only `optimised` tests
# compile as users do; `JAX_DISABLE_MOST_OPTIMIZATIONS=0 make test` has all do so.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# Programs are kept for other processes and later runs; `make clean` drops them.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "programs")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")

import jax
import pytest
from checking import check_types
from xdist.scheduler import LoadScopeScheduling

import jaxagents

CHECKED = [
    "jaxagents.ops",
    "jaxagents.networks",
    "jaxagents.envs",
    "jaxagents.learners.fit",
    "jaxagents.agents.on_policy",
    "jaxagents.agents.collect",
    "jaxagents.agents.targets",
    "jaxagents.agents.actor_and_critic",
    "jaxagents.learners.optimizer",
    "jaxagents.agents.ready_made",
]
LONG = [
    "tests/examples/test_guides.py",
    "tests/test_processes.py",
    "tests/examples/test_examples.py",
    "tests/examples/test_host_examples.py",
    "tests/examples/test_distributed_examples.py",
    "tests/benchmarks/test_benchmarks.py",
]
PAGES = "tests/examples/test_guides.py"
"""Those of a folder share programs, long as they are."""

MOST_MAPPINGS = 10_000

gc.freeze()  # of what is imported, nothing is garbage
gc.set_threshold(100_000, 50, 50)  # by default, collections take an eighth of the time
jax.config.update("jax_numpy_rank_promotion", "raise")  # users may have it so, to find mistakes
jax.config.update("jax_num_cpu_devices", 8)  # some tests share work among them
check_types(CHECKED)
jaxagents.share_programs("probes", "gymnasium_probes", "parallel_probes", "linear")


class Scheduling(LoadScopeScheduling):
    """Runs tests that share programs in one process: those of a file, or of an agent or learner."""

    def _split_scope(self, nodeid):
        file, _, test = nodeid.partition("::")
        if file == PAGES:
            return str(Path(nodeid).parent)
        if file in LONG:
            return nodeid
        return file + test.partition("[")[2] if is_suite(file) else file


def is_suite(file):
    """Whether tests of a file are the same for every agent or learner."""
    return file.endswith(("test_agents.py", "test_learners.py"))


def pytest_xdist_make_scheduler(config, log):
    """Distributes tests as described above."""
    return Scheduling(config, log)


def pytest_collection_modifyitems(config, items):
    """Runs the longest files first, and groups the tests of a file by how they are compiled."""

    def place(item):
        file = item.path.relative_to(config.rootpath).as_posix()
        return file not in LONG, not is_suite(file), file, is_optimised(item)

    items.sort(key=place)


QUICK = jax.config.read("jax_disable_most_optimizations")


def is_optimised(item):
    """Whether a test is compiled as for users."""
    return item.get_closest_marker("optimised") is not None


def pytest_runtest_setup(item):
    """Switches how programs are compiled between tests that differ in it, and drops cached programs."""
    quick = QUICK and not is_optimised(item)
    if quick != jax.config.read("jax_disable_most_optimizations"):
        jax.config.update("jax_disable_most_optimizations", quick)
        jax.clear_caches()


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
        gc.unfreeze()
        gc.collect()
