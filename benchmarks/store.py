"""Results that are kept in a file, so that a page can be made of several runs of a benchmark."""

import json
from pathlib import Path
from typing import Any


def kept(path: Path) -> dict[str, Any]:
    """The results so far: by the name of a piece of work, and by the label of who did it."""
    return json.loads(path.read_text()) if path.exists() else {}


def keep(path: Path, name: str, label: str, result: Any) -> None:
    """Adds or replaces a result, beside what other runs may have added in the meantime."""
    found = kept(path)
    found.setdefault(name, {})[label] = result
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found) + "\n")
