"""Evidence for ideas from attempts, lessons of other problems, and profiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

from mucc.agent.core.analysis import Advice, Severity
from mucc.agent.core.attempts import Attempt, Status
from mucc.agent.core.proposer import Lesson, View
from mucc.agent.propose.offline.features import expected_us, shape_of
from mucc.agent.propose.offline.ideas import Family
from mucc.agent.propose.offline.surrogate import NOISE, Point, Surrogate
from mucc.agent.propose.offline.surveys import Surveys, Version

FAILED = (
    Status.UNBUILT,
    Status.WRONG,
    Status.RAISED,
    Status.CRASHED,
    Status.TIMED_OUT,
    Status.OUT_OF_MEMORY,
    Status.REJECTED,
    Status.INVALID,
)

TRUST = 4.0
"""As many lessons of equal problems weigh as much as what is believed without any."""

HELPED = 1.01
"""A speedup that counts as one: above what times differ by from run to run."""

LESS_ALIKE, OTHERWISE = 0.15, 0.6
"""How much of the likeness of problems is lost with each doubling of a size, and left where words differ."""

WEIGHT = {Severity.INFO: 1.1, Severity.WARNING: 1.5, Severity.CRITICAL: 2.0}
"""By how much a finding of the profile raises the odds that its levers help."""


@dataclass(frozen=True)
class Known:
    """All attempts of a task with the programs that the compiler takes, and what their times say."""

    versions: Mapping[int, Version]
    tried: frozenset[object]
    surrogate: Surrogate
    best: float | None
    """The logarithm of the least time in microseconds."""
    built: frozenset[str]
    """Skeletons that exist."""
    failures: Mapping[object, tuple[int, int]]
    """By mainloop and problem how many programs failed and how many worked."""

    def works(self, version: Version) -> float:
        """Return the probability that a program builds and runs right, from outcomes of others with its
        mainloops.
        """
        found = 1.0
        for term in set(_loops(version)):
            bad, good = self.failures.get(term, (0, 0))
            found *= (good + 1.0) / (good + bad + 1.0)
        return found


def known(surveys: Surveys, view: View) -> Known:
    """Collect the evidence of the attempts of a view."""
    versions: dict[int, Version] = {}
    failures: dict[object, tuple[int, int]] = {}
    surrogate = Surrogate()
    built: set[str] = set()
    times: list[float] = []
    for attempt in view.attempts:
        version = surveys.version(view.task, attempt.candidate.program)
        time = _time(attempt)
        if time is not None:
            times.append(time)
        if version is None:
            continue
        versions[attempt.number] = version
        failed = attempt.outcome.status in FAILED
        for term in set(_loops(version)):
            bad, good = failures.get(term, (0, 0))
            failures[term] = (bad + failed, good + (not failed))
        if time is not None:
            surrogate.observe(point_of(version), time, _noise(attempt))
            built |= version.skeletons
    tried = frozenset(v.key for v in versions.values())
    return Known(versions, tried, surrogate, min(times, default=None), frozenset(built), failures)


def point_of(version: Version) -> Point:
    """Return a program as the surrogate sees it."""
    return Point(math.log(expected_us(version)), version.terms)


def _time(attempt: Attempt) -> float | None:
    """Return the logarithm of microseconds that an attempt took, whether it was audited or not."""
    ms = attempt.outcome.ms
    return math.log(ms * 1e3) if ms and attempt.outcome.status is Status.GOOD else None


def _noise(attempt: Attempt) -> float:
    """How far off a time may be: as far as its quartiles lie apart. Launches that come late, where all cores
    compile, spread times and make the median up to twice what it is."""
    ms, spread = attempt.outcome.ms, attempt.outcome.spread_ms
    return max(NOISE, spread / ms) if ms and spread else NOISE


def _loops(version: Version) -> Iterable[object]:
    for place, move in version.choice.items():
        shape = shape_of(move.settings)
        yield (version.sketch.contractions[place].signature, shape.mainloop, shape.scheduler)


# Lessons


def likeness(a: Mapping[str, Any], b: Mapping[str, Any]) -> float:
    """How much alike two problems are by the features that both say, 0 to 1."""
    return math.prod(_alike(a[name], b[name]) for name in a.keys() & b.keys() if a[name] and b[name])


def _alike(x: Any, y: Any) -> float:
    """How much alike two values are: numbers by their ratio, collections by what they share."""
    if x == y:
        return 1.0
    if _is_number(x) and _is_number(y):
        return math.exp(-LESS_ALIKE * abs(math.log2(x / y))) if min(x, y) > 0 else OTHERWISE
    if isinstance(x, Mapping) and isinstance(y, Mapping):
        first, second = cast("Mapping[str, Any]", x), cast("Mapping[str, Any]", y)
        shared = first.keys() & second.keys()
        return likeness(first, second) * len(shared) / len(first.keys() | second.keys())
    if isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
        ours, theirs = set(map(str, cast("list[Any]", x))), set(map(str, cast("list[Any]", y)))
        return OTHERWISE + (1 - OTHERWISE) * len(ours & theirs) / len(ours | theirs)
    return OTHERWISE


def _is_number(x: object) -> TypeGuard[float]:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def learnt(
    lessons: Sequence[Lesson], kind: str, features: Mapping[str, Any], chance: float, gain: float
) -> tuple[float, float, int]:
    """Return the chance that a kind of change helps and the gain where it does (a logarithm), by what is
    believed and by lessons of problems that are alike; with the number of these.
    """
    alike = [(likeness(lesson.features, features), lesson) for lesson in lessons if lesson.kind == kind]
    weight = TRUST + sum(w for w, _ in alike)
    helped = [(w, x.speedup) for w, x in alike if x.speedup is not None and x.speedup > HELPED]
    chance = (TRUST * chance + sum(w for w, _ in helped)) / weight
    gained = TRUST + sum(w for w, _ in helped)
    gain = (TRUST * gain + sum(w * math.log(s) for w, s in helped)) / gained
    return chance, gain, len(alike)


# Profiles


def advised(advice: Sequence[Advice], family: Family) -> Advice | None:
    """Return the gravest finding that names a lever of a family, for its stage or for the whole program."""
    found = [
        a
        for a in advice
        if family.levers & set(a.levers)
        and (not a.stage or not family.stage or a.stage.rpartition(".")[2] in family.stage)
    ]
    return max(found, key=lambda a: WEIGHT[a.severity], default=None)
