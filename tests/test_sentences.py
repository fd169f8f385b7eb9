"""Sentences of the source code."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("jaxagents", "benchmarks", "examples", "tests")


def test_docstrings_begin_with_a_noun_or_a_verb():
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert not re.findall(r'^\s*r?"""What\b.*', text, re.MULTILINE), path
