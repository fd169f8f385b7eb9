"""Pages of results open with numbers and a chart, which are computed from their tables."""

import importlib
import re
from pathlib import Path

import pytest

plt = pytest.importorskip("matplotlib.pyplot", reason="it draws the charts")

REPOSITORY = Path(__file__).parents[2]
MENU = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8").partition("  - Performance:")[2]
PAGES = re.findall(r": (performance\.md|benchmarks/\w+\.md)$", MENU, re.MULTILINE)
TIMES = "\N{MULTIPLICATION SIGN}"
OPENING = re.compile(
    r"""(---\n(.*\n)+?---\n\n)?# .+

<div class="numbers" markdown>

(- \*\*[^*]+\*\* .+\n){3,5}
</div>
(?P<pictures>(\n!\[.+\]\(.+\)\n)+)
\w"""
)


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(REPOSITORY / "benchmarks")
    monkeypatch.setenv("MPLBACKEND", "agg")
    return importlib.import_module


def test_all_pages_of_results_are_in_the_menu(benchmarks):
    overview = benchmarks("overview")
    assert sorted(overview.DOCS / page for page in PAGES) == sorted(overview.PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_opens_with_numbers_from_its_tables_and_a_chart(page, benchmarks, tmp_path):
    overview, reports = benchmarks("overview"), benchmarks("reports")
    path = overview.DOCS / page
    text = path.read_text(encoding="utf-8")
    start = OPENING.match(text)
    assert start
    for picture in re.findall(r"\]\((.+)\)", start["pictures"]):
        assert (path.parent / picture).is_file()
    assert reports.opened(text, overview.opening_of(path), tmp_path / path.name) == text
    for chart in tmp_path.iterdir():
        assert texts(chart) == texts(path.with_name(chart.name))


def texts(chart: Path) -> list[str]:
    """The texts of a chart, which Matplotlib writes next to their outlines."""
    found = re.findall("<!-- (.+) -->", chart.read_text(encoding="utf-8"))
    assert found
    return found


PAGE = """# Speed

About it.

| | | Environment steps per second | Compilation (s) |
| --- | --- | --- | --- |
| PPO | jaxagents 0.3.0 | 30 | 4 |
| PPO | rejax 0.1.3 | 20 | 2 |
| PPO | ratio | **1.50** (1.20 to 1.60) | **2.00** |
| SAC | ratio | - | - |

## Updates alone

| | Library | Updates per second |
|---|---|---|
| 64 updates per call | sbx-rl 0.28.0 | 8 |
| 64 updates per call | ratio | **0.95** |
"""
START = f"""<div class="numbers" markdown>

- **1.5{TIMES}** as fast as rejax: PPO
- **0.95{TIMES}** as fast as sbx-rl: 64 updates per call

</div>

![Speedup over other libraries (log scale)](page.svg)"""


def test_a_report_opens_with_its_ratios_of_speeds(benchmarks, tmp_path):
    reports = benchmarks("reports")
    reports.write(PAGE.rstrip("\n"), tmp_path / "page.md")
    report = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert report.endswith(PAGE.replace("# Speed", f"# Speed\n\n{START}"))
    assert texts(tmp_path / "page.svg")[:3] == ["PPO", f"1.5{TIMES} rejax", "64 updates per call"]
    assert reports.speed_ratios(PAGE) == [
        ("PPO", "rejax", [1.5, 1.2, 1.6]),
        ("64 updates per call", "sbx-rl", [0.95]),
    ]
    faster = report.replace("**1.50** (1.20", "**1.55** (1.20")
    again = reports.opened(faster, reports.speedups, tmp_path / "page.md")
    assert again == faster.replace(f"**1.5{TIMES}**", f"**1.55{TIMES}**")


def test_a_report_without_ratios_of_speeds_has_no_opening(benchmarks, tmp_path):
    page = "# Results\n\n| Agent | Return |\n| --- | --- |\n| PPO | 500.0 |"
    benchmarks("reports").write(page, tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text(encoding="utf-8").endswith(f"---\n\n{page}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]


def test_tables_and_numbers_are_read_from_a_page(benchmarks):
    reports = benchmarks("reports")
    first, second = reports.tables(PAGE)
    assert first.heading == "Speed"
    assert first.head[1:3] == ["", "Environment steps per second"]
    assert first.rows[3] == ["SAC", "ratio", "-", "-"]
    assert second.heading == "Updates alone"
    assert len(second.rows) == 2
    assert reports.numbers_in("-1,115.1 (-1,132.9 to -4)") == [-1115.1, -1132.9, -4.0]
    assert reports.numbers_in("2,667, 2,145") == [2667.0, 2145.0]
    assert reports.numbers_in("-") == []


def test_a_legend_of_long_names_fits_below_its_plot(benchmarks, tmp_path):
    curves = {f"a library with a long name {i}": ([0, 1], [[0.0, 1.0]]) for i in range(3)}
    benchmarks("reports").draw(tmp_path / "curves.png", "Curves", curves)
    below = plt.imread(tmp_path / "curves.png")[-40:, :, :3]
    assert below.min() < 0.5  # there it is
    assert below[:, 0].min() == below[:, -1].min() == 1.0


def test_other_numbers_are_in_parentheses(benchmarks):
    reports = benchmarks("reports")
    numbers = {("A", "ours"): 1.5, ("A", "x"): 2.0, ("B", "ours"): 3.0, ("A", "y"): 4.0}
    bars = [reports.Bar(*names, [number]) for names, number in numbers.items()]
    assert reports.against_others(bars, "{:.1f} s", "in {title}") == [
        ("1.5 s", "in A (x: 2.0 s; y: 4.0 s)"),
        ("3.0 s", "in B"),
    ]


def test_a_page_of_returns_is_dated_by_its_results(benchmarks):
    measured_on = benchmarks("off_policy").measured_on
    found = [{"date": f"2026-01-0{day}"} for day in (3, 1, 2)]
    assert measured_on({}).startswith("To reproduce: `python benchmarks/off_policy.py")
    assert measured_on({"a": {"DQN": found[0]}}).startswith("Measured on 2026-01-03. To")
    several = {"a": {"DQN": found[0], "C51": found[1]}, "b": {"DQN": found[2]}}
    assert measured_on(several).startswith("Measured from 2026-01-01 to 2026-01-03. To")
