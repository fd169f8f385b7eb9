"""The pictures of the gallery of tutorials: the first that each of them makes.

    python docs/make_gallery.py

runs the tutorials, in a few minutes on two cores, and writes the pictures to `docs/pictures/gallery`.
"""

import argparse
import multiprocessing
import runpy
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

TUTORIALS = Path(__file__).parent / "tutorials"
SIZE = (4.0, 2.4)
"""Of a picture, in inches."""


def draw(tutorial: Path, path: Path) -> None:
    """Runs a tutorial, and saves the first picture that it makes."""
    mpl.use("agg")
    runpy.run_path(str(tutorial))
    figure = plt.figure(min(plt.get_fignums()))
    figure.set_size_inches(SIZE)
    figure.savefig(path, dpi=100, pil_kwargs={"optimize": True})


def main(argv: Sequence[str] | None = None) -> None:
    """Makes the pictures.

    Args:
        argv: Words of the command line; `sys.argv` by default.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    names = sorted(path.stem for path in TUTORIALS.glob("*.py"))
    parser.add_argument("--only", choices=names, nargs="+", default=names)
    parser.add_argument(
        "--folder", type=Path, default=Path("docs/pictures/gallery")
    )
    options = parser.parse_args(argv)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        # In a process of its own, since some set the number of devices.
        made = multiprocessing.get_context("spawn").Process(
            target=draw,
            args=(TUTORIALS / f"{name}.py", options.folder / f"{name}.png"),
        )
        made.start()
        made.join()
        if made.exitcode:
            raise SystemExit(f"The tutorial {name} does not run.")


if __name__ == "__main__":
    main()
