"""The calls that a candidate has to answer, drawn anew for every audit."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from dataclasses import dataclass

from mucc.api.json_types import Json

PROBED, KINDS = ("tf32", "bf16"), ("drawn", "redrawn")
"""Formats whose use is probed, and the two calls of a pair: see `inputs.probed`."""

NAN, ZERO = 0xFF, 0x00
"""What the bytes around inputs hold: NaN in every float format, or zeros."""

SCALES = (("x3", 3.0), ("x0.01", 0.01), ("x-1", -1.0))
"""Hidden scalings of floating-point inputs, beside x1."""

SEEDS = 2**31
"""Seeds of inputs and of calls."""

AUDITS = 2**53
"""Seeds of audits, which all others come from: so many that none can be found by trying, and each is a number
of JSON."""

SLOTS = 2
"""Places that the inputs of timed calls take turns with."""

WARM = 4
"""Calls before those whose times count."""

DRIFTS = 4
"""How often inputs are changed at the most just before a timed call."""

AMID = 3
"""Calls amid a timed series that the profiler looks at: who does other work after so many calls is seen."""

WATCHED, SURELY_WATCHED = 1 / 3, 2
"""The probability with which a call of a timed series is watched, each on its own, so that nobody knows from
earlier ones whether others follow; and how many of those are that are made in any case."""

FEWER = 1 << 20
"""Elements of a result of a timed call that are compared at the most."""


@dataclass(frozen=True)
class Case:
    """One call.

    `seed` draws the inputs, and stays with the judge; `call` seeds what the call draws itself, and tells
    nothing of the other. `slot` is the memory that the inputs lie in: the same slot means the same addresses.
    `guard` is the byte around inputs. `probe` changes the digits of f32 inputs (`inputs.PROBES`). `observe`
    has the call traced by the profiler. `sample` draws the elements of large results that are compared, at
    `most` so many. `drift` says how often the inputs are changed a little where they lie, just before a timed
    call starts. A timed call that is `watched` is stopped at a random moment, and its time does not count.
    """

    name: str
    seed: int
    call: int = 0
    slot: int = 0
    scale: float = 1.0
    guard: int = NAN
    probe: str = ""
    observe: bool = False
    sample: int = 0
    drift: int = 0
    most: int = 1 << 22
    watched: bool = False

    def to_json(self) -> Json:
        return dataclasses.asdict(self)

    @property
    def is_timed(self) -> bool:
        """Whether it is a call of a timed series."""
        return self.drift > 0

    @property
    def is_amid(self) -> bool:
        """Whether it is a call amid a timed series."""
        return self.name.startswith("amid ")

    @property
    def drifts(self) -> int:
        """How often inputs are changed before the call starts: those of a probe are as they were drawn."""
        return 0 if self.probe else self.drift

    @property
    def is_stated(self) -> bool:
        """Whether the inputs are as the problem draws them."""
        return self.scale == 1.0 and not self.probe


def plan(rng: random.Random, probes: bool = True) -> list[Case]:
    """Return the cases of one audit, in order.

    `again` has new values at the addresses of `first`; `moved` has those values elsewhere, between zeros, so
    that what is read beyond an input shows. Stated inputs come `back` after the scalings, and `same` again.
    """
    pairs = rng.randrange(SEEDS)  # the two of a pair are compared element by element
    return [
        dataclasses.replace(case, sample=pairs if case.probe else rng.randrange(SEEDS))
        for case in _plan(rng, probes)
    ]


def _plan(rng: random.Random, probes: bool) -> Iterator[Case]:
    seeds = [(rng.randrange(SEEDS), rng.randrange(SEEDS)) for _ in range(8)]
    yield Case("first", *seeds[0])
    yield Case("again", *seeds[1], observe=True)
    yield Case("moved", *seeds[1], slot=1, guard=ZERO)
    for n, (name, scale) in enumerate(SCALES):
        yield Case(name, *seeds[2 + n], slot=n % 2, scale=scale, observe=n == 0)
    yield Case("back", *seeds[5], slot=1, observe=True)
    yield Case("same", *seeds[5], slot=1, observe=True)
    if probes:
        for probe in PROBED:
            for kind in KINDS:
                yield Case(f"{probe} {kind}", *seeds[6], slot=1, probe=f"{probe} {kind}")


def amid_case(rng: random.Random, number: int) -> Case:
    """Return a call amid a timed series that the profiler looks at."""
    return Case(
        f"amid {number}",
        rng.randrange(SEEDS),
        rng.randrange(SEEDS),
        slot=number % SLOTS,
        observe=True,
        sample=rng.randrange(SEEDS),
    )


def divided(rng: random.Random, count: int, sure: int) -> list[int]:
    """Return where a series of so many calls is interrupted by `AMID` others, which nobody can foresee: once
    among the `sure` ones, then anywhere."""
    if count <= WARM + AMID:
        return []
    first = rng.randrange(WARM + 1, max(min(sure, count - AMID + 1), WARM + 2))
    return [first, *sorted(rng.sample(range(first + 1, count), AMID - 1))]


def timed_case(rng: random.Random, number: int) -> Case:
    """Return a timed call, on inputs of its own."""
    return Case(
        f"timed {number}",
        rng.randrange(SEEDS),
        rng.randrange(SEEDS),
        slot=number % SLOTS,
        sample=rng.randrange(SEEDS),
        drift=1 + rng.randrange(DRIFTS),
        most=FEWER,
    )


def watched_ones(rng: random.Random, runs: int, fewest: int) -> list[bool]:
    """Return which calls of a timed series are watched, in which `WARM` calls and then `runs` others are not.

    The first ones are not, by which it is known what a call takes; then come `fewest` that are not and
    `SURELY_WATCHED` that are, in any order.
    """
    sure = [False] * min(fewest, runs) + [True] * SURELY_WATCHED
    rng.shuffle(sure)
    found = [*[False] * WARM, *sure]
    while found.count(False) < WARM + runs:
        found.append(rng.random() < WATCHED)
    return found


def timed_cases(rng: random.Random, first: int, count: int, sure: int) -> list[Case]:
    """Return the calls of a timed series, the first `sure` of which are made in any case.

    For each format two of them are a pair, which lies anywhere or among the sure ones.
    """
    cases = [timed_case(rng, first + n) for n in range(count)]
    free = list(range(count))
    for probe in PROBED:
        among = [n for n in free if n < sure] if rng.randrange(2) else free
        if len(among) < len(KINDS):
            continue
        pair = rng.sample(among, len(KINDS))
        like = cases[pair[0]]
        for n, kind in zip(pair, KINDS, strict=True):
            free.remove(n)
            same = dataclasses.replace(like, name=cases[n].name, slot=cases[n].slot)
            cases[n] = dataclasses.replace(same, probe=f"{probe} {kind}")
    return cases
