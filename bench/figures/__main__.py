"""Draw the figures of docs/figures.md from recorded results: `python -m bench.figures [--check]`.

Writes docs/figures.md and an SVG for each figure under docs/figures. `--check` writes nothing, names what is
not up to date, and ends with status 1 if there is something.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.common import ROOT, run_main
from bench.figures.contents import FIGURES
from bench.figures.drawing import Figure, svg

PAGE = """\
<!-- made by python -m bench.figures from bench/results -->
# Figures

Times of a rival over those of mucc, from recorded results: `python -m bench.figures` draws them, and a test
compares them with [bench/results](../bench/results), which name card, versions and command. A dot is a
shape, a model or a layer; a ring is one where mucc is slower; the bar is the geometric mean. Numbers on the
right are that mean and, in brackets, the least. [Benchmarks](../bench/README.md) says how each was measured.
"""


def page(figures: Sequence[Figure]) -> str:
    """Return the page with all figures, and a table of each."""
    parts = [PAGE]
    for figure in figures:
        parts.append(f"## {figure.title}\n")
        parts.append(f"![{figure.alt}](figures/{figure.name}.svg)\n")
        if figure.note:
            parts.append(f"{figure.note}\n")
        parts.append(table(figure))
    return "\n".join(parts)


def table(figure: Figure) -> str:
    """Return a table: for each strip the number of values, their mean, how many are slower, and the least."""
    lines = ["| of mucc over a rival | measured | mean | slower | least |", "|---|---|---|---|---|"]
    for strip in figure.strips:
        name, least = strip.least
        slower = sum(v < 1 for v in strip.values.values())
        lines.append(
            f"| {strip.label} | {len(strip.values)} | {strip.mean:.2f} | {slower} | {least:.2f}, {name} |"
        )
    return "\n".join(lines) + "\n"


def contents(folder: Path) -> dict[Path, str]:
    """Return the text of all files below a folder of documentation, by path."""
    figures = [make() for make in FIGURES]
    drawn = {folder / "figures" / f"{figure.name}.svg": svg(figure) for figure in figures}
    return {folder / "figures.md": page(figures), **drawn}


def main(words: list[str] | None = None, folder: Path = ROOT / "docs") -> int:
    """Write the files that differ, or name them."""
    parser = argparse.ArgumentParser(prog="python -m bench.figures", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; status 1 if a file is not up to date"
    )
    check = parser.parse_args(words).check
    made = contents(folder)
    stale = [path for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text]
    for path in stale:
        print(f"{path.relative_to(folder)} is not what python -m bench.figures makes" if check else path)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[path], encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    run_main(main)
