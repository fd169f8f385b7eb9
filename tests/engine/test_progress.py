"""Progress bars."""

import sys

import pytest

from jaxagents.engine.observers import ProgressBar


def show_all(bar):
    with bar:
        bar.on_chunk(None, 2, {})
        bar.show("return 7")
        bar.on_interruption(None, {})


def test_shows_what_is_done_and_where_it_was_interrupted(capsys):
    show_all(ProgressBar("<PPO>", 1, 4))
    shown = capsys.readouterr().err
    assert "PPO" in shown
    assert "return 7" in shown
    assert "Interrupted after 3 of 5 updates." in shown


@pytest.mark.parametrize("has_console", [True, False])
def test_shows_nothing_where_it_is_not_to_or_cannot(has_console, capsys, monkeypatch):
    if not has_console:
        monkeypatch.setattr(sys, "stderr", None)
    show_all(ProgressBar("PPO", 0, 4, disable=has_console))
    assert capsys.readouterr().err == ""
