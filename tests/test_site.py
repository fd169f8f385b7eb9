"""The documentation site: nothing fetched from elsewhere, and code that fits on a page."""

import dataclasses
import importlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import jaxagents
from jaxagents.catalogue import CATALOGUE, Entry
from jaxagents.engine.behaviour import Behaviour

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
MODULES = sorted((ROOT / "jaxagents").rglob("*.py"))
BLOCK = re.compile(r"^( *)``` ?\{?[ .a-z]+\}?\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
INCLUDED = re.compile(r'^--8<-- "([^:\n]+?)(?::(\d+):(\d+))?"$', re.MULTILINE)
COLUMNS = 80


class Settings(yaml.SafeLoader):
    """Reads the site's settings, without tags that name Python objects."""


Settings.add_multi_constructor("", lambda loader, suffix, node: None)


def test_scripts_and_styles_are_part_of_the_site():
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Settings)
    for name in (*settings["extra_javascript"], *settings["extra_css"]):
        assert (DOCS / name).is_file()
    assert settings["theme"]["font"] is False  # else the theme loads one


@pytest.mark.skipif(not (shutil.which("make") and shutil.which("git")), reason="needs make and git")
@pytest.mark.parametrize(
    ("origin", "address"),
    [
        ("https://host.org/of/name", "https://host.org/of/name"),
        ("git@host.org:of/name.git", "https://host.org/of/name"),
        ("/srv/name.git", ""),
        ("file:///srv/name.git", ""),
    ],
)
def test_the_site_links_to_the_repository_that_it_was_cloned_from(
    origin: str, address: str, tmp_path: Path
):
    shutil.copy(ROOT / "Makefile", tmp_path)
    environment = {"PATH": os.environ["PATH"]}
    for command in (
        ["git", "init", "--quiet"],
        ["git", "config", "remote.origin.url", origin],
        ["make", "--silent", "--eval=url: ; @echo $$REPOSITORY_URL", "url"],
    ):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
        )
    assert done.stdout == f"{address}\n"


@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_code_stands_out_from_its_background(scheme: str):
    style = (DOCS / "assets" / "site.css").read_text(encoding="utf-8")
    rules = re.search(
        rf'^\[data-md-color-scheme="{scheme}"\] {{\n(.*?)^}}', style, re.DOTALL | re.MULTILINE
    )
    colours = dict(re.findall(r"--md-code-(\S+)-color: #(\S{6});", rules[1]))
    background = luminance(colours.pop("bg"))
    assert {"fg", "hl-comment", "hl-keyword", "hl-string"} < set(colours)
    for name, colour in colours.items():
        dark, light = sorted((background, luminance(colour)))
        assert (light + 0.05) / (dark + 0.05) >= 4.5, name  # level AA of WCAG 2.2


def luminance(colour: str) -> float:
    """The relative luminance of a colour in hexadecimal, as WCAG 2.2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return sum(weight * x for weight, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


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


AGENTS = sorted({f"agents/{entry.module}.md" for entry in CATALOGUE.values()})
SECTIONS = [
    "Example",
    "Learning curve",
    "Support",
    "Algorithm",
    "Configuration",
    "Hyperparameters",
]


@pytest.mark.parametrize("page", AGENTS)
def test_pages_of_agents_have_the_same_sections_in_the_same_order(page: str):
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall("^## (.+)$", text, re.MULTILINE)
    assert found[: len(SECTIONS)] == SECTIONS
    assert found[-1] == "Reference"
    assert "**When to use it.**" in text.partition("## Example")[0]


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=lambda entry: entry.agent)
def test_pages_of_agents_say_what_the_agents_support(entry: Entry):
    lines = (DOCS / f"agents/{entry.module}.md").read_text(encoding="utf-8").splitlines()
    head = "| discrete | continuous | multi-agent | memory | masks | host | offline |"
    cells = lines[lines.index(head) + 2].strip("| ").split(" | ")
    said = dict(zip(head.strip("| ").split(" | "), cells, strict=True))
    agent, config, _ = entry.types()
    is_discrete = "discrete" in entry.actions
    plays_on_host = agent.host_collection is not Behaviour.host_collection
    supported = {
        "discrete": is_discrete,
        "continuous": "continuous" in entry.actions,
        "multi-agent": agent._is_of_actors,
        "memory": "memory" in {field.name for field in dataclasses.fields(config)},
        "masks": is_discrete,  # only discrete actions have masks
        "host": plays_on_host or entry.learns_from_data,  # evaluated, if not trained
        "offline": entry.learns_from_data,
    }
    assert {name: "yes" in cell for name, cell in said.items()} == supported
    assert all(re.fullmatch(r"no|yes|\[yes\]\(\S+\)", cell) for cell in said.values())


@pytest.mark.parametrize("page", AGENTS)
def test_pages_of_agents_show_the_curves_that_were_measured(
    page: str, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("matplotlib", reason="it draws the curves")
    monkeypatch.syspath_prepend(DOCS)
    curves = importlib.import_module("make_curves")
    results = curves.read(curves.PRESETS) | curves.read(curves.TRAINED)
    agent = Path(page).stem
    assert curves.section(agent, results) in (DOCS / page).read_text(encoding="utf-8")
    figure = DOCS / "pictures" / "curves" / f"{agent}.svg"
    assert 0 < figure.stat().st_size < 60_000


TABLE = re.compile(r"^\|(.*)\|\n\|[-|: ]+\|$", re.MULTILINE)
IDENTIFIER = re.compile(r"^ *::: (jaxagents\.\S+)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_name_what_is_in_their_last_column(page: Path):
    heads = TABLE.findall(page.read_text(encoding="utf-8"))
    assert [head for head in heads if not head.rpartition("|")[2].strip()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_reference_shows_names_as_users_import_them(page: Path):
    for path in IDENTIFIER.findall(page.read_text(encoding="utf-8")):
        _, *modules, name = path.split(".")
        if name in jaxagents.__all__ and modules:
            assert modules[0] not in {"agents", "core", "engine", "learners"}, path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_fits_on_a_page(page: Path):
    assert too_long(page.read_text(encoding="utf-8")) == []


def test_code_of_docstrings_fits_on_a_page():
    found = {path: too_long(path.read_text(encoding="utf-8")) for path in MODULES}
    assert {str(path): lines for path, lines in found.items() if lines} == {}


def too_long(text: str) -> list[str]:
    """Lines of code blocks that are too long for the site."""
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
    return "\n".join(lines[int(first or 1) - 1 : int(last or len(lines))])
