"""The features of schedules by which measured times correct the model.

A term is something that two programs share (a mainloop on the same problem, a tile) with the standard
deviation of the error that the model makes for all that share it. The deviations are those of the 11,380
measurements of `bench/results/h200/calibration*.csv.gz`, taken apart by what pairs of schedules have in
common: 0.17 for a problem, 0.04 more where mainloops differ, 0.07 where tiles do, 0.06 for clusters and
depths, and the rest for orders of tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from mucc.api import schedules

if TYPE_CHECKING:
    from mucc.agent.propose.offline.surveys import Version

Terms = Mapping[int, float]
"""Deviations by what they are of, for a whole program: parts of its time. Terms are numbered, since their
names are long and asked for often."""

_NUMBERS: dict[object, int] = {}
_NEXT = count()

ALL, PROBLEM, BODY = 0.10, 0.10, 0.02
MAINLOOP, SIDE, TILE, CLUSTER, SKELETON, WALK, ORDER = 0.04, 0.02, 0.04, 0.02, 0.02, 0.006, 0.006
UNTRIED = {"warpspecialized": 0.08, "multistage": 0.15, "cpasync": 0.08}
"""More for mainloops to which the model was fitted less, or only where they are the only ones."""
EVERYWHERE = 0.5
"""Of a term's variance, what holds for other problems of the same format too."""
OTHER_KERNELS = 0.25
"""How far off the time of kernels is that are no products."""
LAUNCH = 0.5
"""What of launching a kernel goes by beside the one before it, with `pdl = on`; as much is its deviation."""


class Shape(NamedTuple):
    """A schedule's settings in the terms of the program: rows and columns as the result has them."""

    mainloop: str
    scheduler: str
    rows: int
    columns: int
    depth: int
    cluster: tuple[int, int]
    walk: str
    exchanged: bool


def shape_of(settings: Mapping[str, str]) -> Shape:
    """Return the settings that the compiler wrote, read again."""
    return _shape(tuple(settings.items()))


@lru_cache(maxsize=1 << 14)
def _shape(texts: tuple[tuple[str, str], ...]) -> Shape:
    settings = schedules.parse_settings(texts)
    tile, cluster = schedules.TILE.of(settings), schedules.CLUSTER.of(settings)
    mainloop, scheduler = schedules.MAINLOOP.of(settings), schedules.SCHEDULER.of(settings)
    assert tile and mainloop
    # Attention has no clusters, and its scheduler may be left to the launch.
    (m, n, k), (a, b) = tile.sizes, cluster.sizes if cluster else (1, 1)
    is_exchanged = schedules.EXCHANGE.is_on(settings)
    if is_exchanged:
        m, n, a, b = n, m, b, a
    return Shape(
        mainloop.data.value,
        scheduler.kind.data if scheduler else "persistent",
        m,
        n,
        k,
        (a, b),
        schedules.SCHEDULER.text(scheduler) if scheduler else "",
        is_exchanged,
    )


def expected_us(version: Version) -> float:
    """Return the model's time, less what overlaps between kernels."""
    saved = sum(LAUNCH * m.launch_us for m in version.choice.values() if m.settings.get("pdl") == "on")
    return max(version.us - saved, 1e-3)


def terms_of(version: Version) -> dict[int, float]:
    """Return the terms of a program."""
    total = expected_us(version)
    found = {_number("all"): ALL, _number(("body", version.sketch.body)): BODY}
    for place, move in version.choice.items():
        share = move.us / total
        contraction = version.sketch.contractions[place]
        settings = tuple(move.settings.items())
        numbered = _numbered(contraction.signature, contraction.workload.compute, settings)
        for term, deviation in numbered:
            found[term] = found.get(term, 0.0) + share * deviation
        if move.settings.get("pdl") == "on":
            term = _number("pdl")
            found[term] = found.get(term, 0.0) + LAUNCH * move.launch_us / total
    for kind, us in version.sketch.other_us.items():
        found[_number(("kernel", kind))] = OTHER_KERNELS * us / total
    return found


def _number(term: object) -> int:
    return _NUMBERS.setdefault(term, next(_NEXT))


@lru_cache(maxsize=1 << 14)
def _numbered(
    here: str, compute: str, settings: tuple[tuple[str, str], ...]
) -> tuple[tuple[int, float], ...]:
    return tuple((_number(t), d) for t, d in _of_schedule(here, compute, shape_of(dict(settings))))


def _of_schedule(here: str, compute: str, shape: Shape) -> Iterator[tuple[object, float]]:
    """Yield the terms of a schedule for a problem."""
    loop = (shape.mainloop, shape.scheduler)
    tile = (shape.mainloop, shape.rows, shape.columns)
    yield (here,), PROBLEM
    yield from _shared(here, compute, ("mainloop", *loop), MAINLOOP)
    if shape.mainloop in UNTRIED:
        yield (compute, "untried", shape.mainloop), UNTRIED[shape.mainloop]
    yield (here, "rows", shape.rows), SIDE
    yield (here, "columns", shape.columns), SIDE
    yield from _shared(here, compute, ("tile", *tile), TILE)
    yield (here, "cluster", shape.cluster, shape.mainloop), CLUSTER
    yield (here, "skeleton", *loop, *tile, shape.depth, shape.cluster, shape.exchanged), SKELETON
    yield (here, "walk", shape.walk), WALK
    yield (here, "order", *loop, *tile, shape.depth, shape.cluster, shape.exchanged, shape.walk), ORDER


def _shared(
    here: str, compute: str, term: tuple[object, ...], deviation: float
) -> Iterator[tuple[object, float]]:
    """Yield a term that holds partly for other problems of the same format."""
    yield (here, *term), deviation * (1 - EVERYWHERE) ** 0.5
    yield (compute, *term), deviation * EVERYWHERE**0.5


def dot(a: Terms, b: Terms) -> float:
    """Return the covariance of the model's errors for two programs."""
    if len(a) > len(b):
        a, b = b, a
    return sum(value * b[term] for term, value in a.items() if term in b)
