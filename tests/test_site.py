"""The documentation site: nothing fetched from elsewhere, and code that fits on a page."""

import re
from pathlib import Path

import pytest
import yaml

from jaxagents.catalogue import CATALOGUE, Entry

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
MODULES = sorted((ROOT / "jaxagents").rglob("*.py"))
BLOCK = re.compile(r"^( *)``` ?\{?[ .a-z]+\}?\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
INCLUDED = re.compile(r'^--8<-- "(.+):(\d+):(\d+)"$', re.MULTILINE)
COLUMNS = 80


class Settings(yaml.SafeLoader):
    """Reads the site's settings; what names Python objects is left out."""


Settings.add_multi_constructor("", lambda loader, suffix, node: None)


def test_scripts_and_styles_are_part_of_the_site():
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Settings)
    for name in (*settings["extra_javascript"], *settings["extra_css"]):
        assert (DOCS / name).is_file()
    assert settings["theme"]["font"] is False  # else the theme loads one


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=lambda entry: entry.agent)
def test_every_agent_is_where_newcomers_look(entry: Entry):
    page = f"agents/{entry.module}.md"
    assert f"[`{entry.agent}`" in README or f"`{entry.agent}`]" in README
    assert f"docs/{page}" in README
    assert page in (DOCS / "index.md").read_text(encoding="utf-8")
    assert page in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    reference = (DOCS / "api" / page).read_text(encoding="utf-8")
    assert f"::: jaxagents.{entry.module}.{entry.agent}\n" in reference
    which = (DOCS / "guide" / "which_agent.md").read_text(encoding="utf-8")
    assert re.search(rf"{page}|\b{entry.agent}\b", which)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_fits_on_a_page(page: Path):
    assert too_long(page.read_text(encoding="utf-8")) == []


def test_code_of_docstrings_fits_on_a_page():
    found = {path: too_long(path.read_text(encoding="utf-8")) for path in MODULES}
    assert {str(path): lines for path, lines in found.items() if lines} == {}


def too_long(text: str) -> list[str]:
    """The lines of blocks of code that a page of the site cannot show whole."""
    lines = [
        line.removeprefix(block[1])
        for block in BLOCK.finditer(text)
        for line in INCLUDED.sub(included, block[2]).splitlines()
    ]
    return [line for line in lines if len(line) > COLUMNS]


def included(found: re.Match[str]) -> str:
    """The lines of a file that a page includes."""
    path, first, last = found.groups()
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return "\n".join(lines[int(first) - 1 : int(last)])
