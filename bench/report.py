"""The recorded results as a table: `python -m bench.report [WORD …]` shows the figures that have a WORD."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.common import RESULTS


def load(root: Path = RESULTS) -> list[dict[str, Any]]:
    """Every result, by card and name of the file."""
    return [json.loads(path.read_text()) | {"name": path.stem} for path in sorted(root.glob("*/*.json"))]


def table(results: list[dict[str, Any]], words: list[str]) -> str:
    """One line for each figure that has one of the words in its name; all of them without words."""
    rows = [("figure", "value", "card", "commit", "date")]
    for result in results:
        for figure, value in result["summary"].items():
            if not words or any(word in figure for word in words):
                row = (figure, f"{value:g}", result["card"], result["commit"], result["date"][:10])
                rows.append(row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "".join(f"{line.rstrip()}\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(table(load(), sys.argv[1:]))
