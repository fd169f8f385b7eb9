"""Every mistake of the table raises the error that its page shows, before anything is compiled."""

import pytest
from mistakes.page import PAGE, outcome_of, page
from mistakes.table import MISTAKES

PROGRAMS = {"start", "advance", "evaluate", "play", "restart", "train", "create", "update", "act"}
"""Names of compiled functions that are worth waiting for."""


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.title)
def test_a_mistake_is_named(mistake):
    outcome = outcome_of(mistake)
    assert outcome.error is not None
    assert outcome.row in PAGE.read_text(encoding="utf-8").splitlines()
    assert not outcome.compiled & PROGRAMS


def test_the_page_of_mistakes_is_up_to_date():
    assert len(MISTAKES) == len({mistake.title for mistake in MISTAKES}) >= 300
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "Run PYTHONPATH=tests python -m mistakes.page, and read what changed"
    )
