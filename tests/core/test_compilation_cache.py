"""Programs cached on disk."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache

from jaxagents import cache_programs

OPTIONS = (
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_compilation_cache_max_size",
)


@pytest.fixture(autouse=True)
def _without_cache():
    """Disables a cache that was set up before, until the test ends."""
    before = {option: getattr(jax.config, option) for option in OPTIONS}
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()
    yield
    for option, value in before.items():
        jax.config.update(option, value)
    compilation_cache.reset_cache()


def test_programs_are_compiled_once(tmp_path):
    folder = cache_programs(tmp_path)
    assert folder.is_relative_to(tmp_path)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    results, hits = [], []

    def listen(event, **details):
        hits.append(event.endswith("/cache_hits"))

    jax.monitoring.register_event_listener(listen)
    try:
        for _ in range(2):
            results.append(jax.jit(lambda x: jnp.sin(x) * 3.0)(jnp.arange(5.0)))
            assert list(folder.glob("jit__lambda*"))
            jax.clear_caches()
    finally:
        jax.monitoring.unregister_event_listener(listen)
    assert any(hits)
    assert (results[0] == results[1]).all()


def test_a_cache_that_is_set_up_stays_and_the_default_is_the_folder_of_the_user(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_programs().is_relative_to(tmp_path)
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "own"))
    assert cache_programs(tmp_path / "other") == tmp_path / "own"
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "own")
