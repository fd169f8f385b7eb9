"""The tutorials run from top to bottom, and are on the site."""

import re
import runpy
from pathlib import Path

import pytest
from PIL import Image

DOCS = Path(__file__).parents[2] / "docs"
TUTORIALS = sorted(DOCS.glob("tutorials/*.py"))
LINK = re.compile(r"\]\(\.\./\.\./([^)#]*)/[)#]")


@pytest.mark.usefixtures("short_trainings")
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path: Path):
    runpy.run_path(str(path))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_is_in_the_gallery(path: Path):
    gallery = (DOCS / "tutorials" / "index.md").read_text(encoding="utf-8")
    assert f"(../pictures/gallery/{path.stem}.png)]({path.name})" in gallery
    assert (DOCS / "pictures" / "gallery" / f"{path.stem}.png").stat().st_size < 50_000


@pytest.mark.usefixtures("short_trainings")
def test_draws_the_first_picture_of_a_tutorial(tmp_path: Path):
    script = runpy.run_path(str(DOCS / "make_gallery.py"))
    script["draw"](DOCS / "tutorials" / "stop_and_resume.py", tmp_path / "picture.png")
    with Image.open(tmp_path / "picture.png") as picture:
        assert picture.size == (400, 240)


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
