"""The documentation site: nothing fetched from elsewhere, and code that fits on a page."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
BLOCK = re.compile(r"^ *```python\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
COLUMNS = 80


class Settings(yaml.SafeLoader):
    """Reads the site's settings; what names Python objects is left out."""


Settings.add_multi_constructor("", lambda loader, suffix, node: None)


def test_scripts_and_styles_are_part_of_the_site():
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Settings)
    for name in (*settings["extra_javascript"], *settings["extra_css"]):
        assert (DOCS / name).is_file()
    assert settings["theme"]["font"] is False  # else the theme loads one


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_code_fits_on_a_page(page: Path):
    text = page.read_text(encoding="utf-8")
    lines = [line for block in BLOCK.finditer(text) for line in block[1].splitlines()]
    assert [line for line in lines if len(line) > COLUMNS] == []
