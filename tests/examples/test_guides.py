"""The code of the guides runs, each page from top to bottom."""

import re
from pathlib import Path

import pytest

GUIDES = Path(__file__).parents[2] / "docs" / "guide"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", ["environments"])
def test_the_code_of_a_page_runs(page):
    path = GUIDES / f"{page}.md"
    text = path.read_text(encoding="utf-8")
    names = {"__name__": page}
    for block in BLOCK.finditer(text):
        above = text[: block.start(1)].count("\n")
        exec(compile("\n" * above + block[1], path, "exec"), names)
