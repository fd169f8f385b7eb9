"""The pictures of the README, in a small size."""

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "docs" / "make_pictures.py"


def test_makes_a_curve_and_a_film(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    spec = importlib.util.spec_from_file_location("make_pictures", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "N_SEEDS", 2)
    script.main(["--only", "cartpole", "--n-updates", "1", "--folder", str(tmp_path / "new")])
    made = {path.name for path in (tmp_path / "new").iterdir()}
    assert made == {"cartpole.gif", "cartpole_curve.svg"}
