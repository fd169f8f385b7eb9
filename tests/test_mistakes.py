"""Every mistake of the table raises the error that tells what is wrong, before anything is compiled."""

import re

import pytest
from mistakes.outcomes import PROGRAMS, outcome_of
from mistakes.page import PAGE, page
from mistakes.table import MISTAKES, THEMES


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_named(mistake):
    outcome = outcome_of(mistake)
    assert type(outcome.error) is mistake.error, repr(outcome.error)
    assert re.search(mistake.message, outcome.message), outcome.message
    assert not outcome.compiled & PROGRAMS


def test_the_table_is_large_and_has_no_mistake_twice():
    assert len(MISTAKES) >= 120
    for theme in THEMES:
        names = [mistake.name for mistake in theme.mistakes]
        assert len(set(names)) == len(names)


def test_the_page_of_mistakes_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "Run PYTHONPATH=tests python -m mistakes.page"
    )
