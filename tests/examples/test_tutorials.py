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
def test_a_tutorial_runs_and_saves_its_pictures(path: Path, tmp_path: Path, capfd):
    draw = runpy.run_path(str(DOCS / "make_gallery.py"))["draw"]
    draw(path, tmp_path / "picture.png")
    with Image.open(tmp_path / "picture.png") as picture:
        assert picture.size == (400, 240)
    folder = re.search("The pictures? (?:is|are) in (.*)", capfd.readouterr().out)[1]
    assert list(Path(folder).glob("*.png"))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_is_on_the_site_and_in_the_gallery_and_links_to_its_pages(path: Path):
    assert f"tutorials/{path.name}" in (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    gallery = (DOCS / "tutorials" / "index.md").read_text(encoding="utf-8")
    assert f"(../pictures/gallery/{path.stem}.png)]({path.name})" in gallery
    assert (DOCS / "pictures" / "gallery" / f"{path.stem}.png").stat().st_size < 50_000
    links = LINK.findall(path.read_text(encoding="utf-8"))
    pages = [{DOCS / f"{link}{suffix}" for suffix in (".md", ".py")} for link in links]
    assert links
    assert all(any(page.is_file() for page in of_link) for of_link in pages)
