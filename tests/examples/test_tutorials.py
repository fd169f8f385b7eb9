"""The tutorials run from top to bottom, and are on the site."""

import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TUTORIALS = sorted(DOCS.glob("tutorials/*.py"))
LINK = re.compile(r"\]\(\.\./\.\./([^)#]*)/[)#]")


@pytest.mark.usefixtures("short_trainings")
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path: Path):
    runpy.run_path(str(path))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_is_on_the_site_and_links_to_its_pages(path: Path):
    assert f"tutorials/{path.name}" in (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    links = LINK.findall(path.read_text(encoding="utf-8"))
    missing = [
        link
        for link in links
        if not any((DOCS / f"{link}{suffix}").is_file() for suffix in (".md", ".py"))
    ]
    assert links
    assert missing == []
