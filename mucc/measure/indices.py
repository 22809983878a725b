"""Random values of index arguments that a kernel may be called with: ends of groups, numbers of rows."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

from mucc.library.extents import value
from mucc.library.signature import Arg


def draw_indices(arg: Arg, dims: Mapping[str, int], rng: random.Random) -> list[int]:
    """Values for an index argument, flat, in the order of its axes.

    Groups may be empty, or hold all rows. Raises ValueError where more rows are to be named than there are,
    each once.
    """
    count = math.prod(arg.extents(dims))
    limits = [value(i.rows, dims) for i in arg.indices]
    rows = min(limits)
    if any(i.kind == "ends" for i in arg.indices):
        return _ends(count, rows, rng)
    if not any(i.once for i in arg.indices):
        return [rng.randrange(rows) for _ in range(count)]
    if count > rows:
        raise ValueError(f"'{arg.name}' is to name {count} of {rows} rows, each once")
    return rng.sample(range(rows), count)


def _ends(count: int, rows: int, rng: random.Random) -> list[int]:
    """Draw the ends of groups of rows: even ones, any, or few groups that hold all rows."""
    match rng.randrange(3):
        case 0:
            inner = [rows * (g + 1) // count for g in range(count - 1)]
        case 1:
            inner = sorted(rng.randint(0, rows) for _ in range(count - 1))
        case _:
            inner = sorted(rng.choice((0, rng.randint(0, rows), rows)) for _ in range(count - 1))
    return [*inner, rows]
