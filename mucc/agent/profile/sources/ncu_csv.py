"""The raw page of Nsight Compute as CSV.

    "ID","Process ID","Process Name",…,"Kernel Name",…,"gpu__time_duration.sum","launch__grid_size",…
    "","","",…,"",…,"ns","",…
    "0","4711","python3.12",…,"mu_mlp_h(…)",…,"12,345","132",…

The first line names the columns, the second their units, and each further one is a launch. Messages
(`==PROF== …`) may come before and between.
"""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Iterable

from mucc.agent.profile.sources import Launch

NAME, GRID, BLOCK = "Kernel Name", "Grid Size", "Block Size"
FIRST = '"ID",'


def parse(text: str) -> list[Launch]:
    """Return the launches in what ncu wrote; none where it profiled nothing."""
    rows = _rows(text)
    if not rows or NAME not in (names := rows[0]):
        return []
    found: list[Launch] = []
    for row in rows[2:]:
        if len(row) != len(names):
            continue
        cells = dict(zip(names, row, strict=True))
        counters = {
            name: value
            for name, text in cells.items()
            if "__" in name and (value := _number(text)) is not None
        }
        kernel = re.split(r"[(<\s]", cells[NAME].removeprefix("void ").strip(), maxsplit=1)[0]
        found.append(Launch(kernel, cells.get(GRID, ""), cells.get(BLOCK, ""), counters))
    return found


def _rows(text: str) -> list[list[str]]:
    """Return the cells of the table, as far as it is one."""
    found: list[list[str]] = []
    with contextlib.suppress(csv.Error):
        found.extend(csv.reader(_table(text)))
    return found


def _table(text: str) -> Iterable[str]:
    """Yield the lines of the table alone."""
    inside = False
    for line in text.splitlines():
        inside = inside or line.startswith(FIRST)
        if inside and line.startswith('"'):
            yield line


def _number(text: str) -> float | None:
    """Return a cell's number, None for `n/a` and for text. Digits come in groups."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def messages(text: str) -> list[str]:
    """Return the errors and warnings that ncu printed."""
    found = re.findall(r"^==(?:ERROR|WARNING)==\s*(.*?)\s*$", text, re.MULTILINE)
    return [line for line in found if line and not line.startswith("Note:")]
