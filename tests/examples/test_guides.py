"""The code of the documentation runs, each page from top to bottom."""

import re
from pathlib import Path

import pytest
from pendulum import check_that_torques_are_read

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    *sorted((DOCS / "guide").glob("*.md")),
    *sorted((DOCS / "agents").glob("*.md")),
    *sorted((DOCS / "api").rglob("*.md")),
    ROOT / "README.md",
    DOCS / "index.md",
    DOCS / "reliability.md",
]
AS_WRITTEN = {"checkpoints"}
"""Pages with short runs, whose code refers to update numbers."""
TRACED = {"action_masks", "environments", "extending", "memory", "normalisation", "subclassing"}
TRACED |= {
    "a2c",
    "c51",
    "dqn",
    "ippo",
    "mappo",
    "ppo",
    "pqn",
    "qrdqn",
    "reinforce",
    "rnd",
    "sac",
    "td3",
}
"""Pages of many agents, environments and hooks, which the suite trains: here they are called."""
DATASET = re.compile(r'\.save\("([\w.]+)"\)')
BLOCK = re.compile(r"(<!-- not run: [^>]+ -->\n+)?^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def names_of_pages():
    """Variables of pages, kept so that later pages reuse the programs of their agents."""
    return []


@pytest.mark.filterwarnings("ignore::UserWarning:minari.utils")  # what else a dataset might say
@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_code_of_a_page_runs(
    path: Path, request: pytest.FixtureRequest, names_of_pages: list[dict[str, object]]
):
    fixtures = {
        **dict.fromkeys(AS_WRITTEN, "in_a_folder"),
        **dict.fromkeys(TRACED, "traced_trainings"),
    }
    request.getfixturevalue(fixtures.get(path.stem, "short_trainings"))
    text = path.read_text(encoding="utf-8")
    names = {"__name__": path.stem}
    names_of_pages.append(names)
    for block in BLOCK.finditer(text):
        if block[1] is None:
            above = text[: block.start(2)].count("\n")
            exec(compile("\n" * above + block[2], path, "exec"), names)
    for name in DATASET.findall(text):  # all are of Pendulum
        check_that_torques_are_read(Path(name).absolute(), Path(f"run_on_{name}").absolute())
