"""The command that installs an extra matches the installed copy of jaxagents."""

from importlib import metadata

import pytest

from jaxagents.core import extras

ORIGINS = {
    None: 'pip install "jaxagents[plot]"',
    '{"url": "file:///home/me/my%20copy", "dir_info": {"editable": true}}': (
        'pip install -e "/home/me/my copy[plot]"'
    ),
    '{"url": "file:///home/me/copy", "dir_info": {}}': 'pip install "/home/me/copy[plot]"',
    '{"url": "file:///tmp/jaxagents-0.3.0-py3-none-any.whl", "archive_info": {}}': (
        'pip install "jaxagents[plot] @ file:///tmp/jaxagents-0.3.0-py3-none-any.whl"'
    ),
    '{"url": "https://example.org/jaxagents", "vcs_info": {"vcs": "git", "commit_id": "0"}}': (
        'pip install "jaxagents[plot] @ git+https://example.org/jaxagents"'
    ),
}


@pytest.mark.parametrize("origin", ORIGINS)
def test_it_installs_the_same_copy(origin, monkeypatch):
    class Installed:
        def read_text(self, name):
            assert name == "direct_url.json"
            return origin

    monkeypatch.setattr(extras, "distribution", lambda name: Installed())
    assert extras.pip_install("plot") == ORIGINS[origin]


def test_it_is_of_the_index_where_nothing_is_installed(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(extras, "distribution", missing)
    assert extras.pip_install("plot") == 'pip install "jaxagents[plot]"'
