"""What was seen of a candidate and of its reference: all that detectors look at."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from mucc.agent.audit.cases import Case
from mucc.agent.audit.noise import interval
from mucc.agent.audit.places import Look
from mucc.api.json_types import from_json

TOLD = 0.5
"""The share of calls amid the series of which more have to tell whether kernels on other streams wait for
inputs, where times of the judge's own kernel tell nothing."""

BUSY = 0.1
"""The share of calls' time spent waiting for a processor above which other work disturbed them."""


@dataclass(frozen=True)
class Work:
    """One kind of work within a call: an ATen operation on the host, or a kernel of the device.

    `us` is its own time of all its calls; `parent` is the operation that launched a kernel, if any did.
    `late_us` is how long the last of them ended after the default stream was done with the call, `early_us`
    how long the first of them started before the default stream had come to it; None where that cannot be
    told.
    """

    kind: str
    name: str
    parent: str
    stream: int
    calls: int
    us: float
    late_us: float = 0.0
    early_us: float | None = None


@dataclass(frozen=True)
class Output:
    """One result as the candidate returned it; `aliases` are the inputs whose memory it shares.

    `subclass` is the class of a tensor that is no plain one. `shares_elements` says that it has more elements
    than memory, as expanded tensors do.
    """

    dtype: str = ""
    shape: tuple[int, ...] = ()
    device: str = ""
    aliases: tuple[int, ...] = ()
    value: object = None
    subclass: str = ""
    shares_elements: bool = False


@dataclass(frozen=True)
class Comparison:
    """One case's results against the reference, by the reference's process.

    `excess` is the largest error over what is tolerated. `judged` is off where the reference itself has no
    finite result for scaled inputs. `stale_of` is the earlier case whose expected result came instead,
    `repeats` one of other inputs with the same result to the bit. `absent` is the share of elements that were
    not computed though their size does not matter to what is tolerated (`absent.absent_share`).
    """

    correct: bool
    judged: bool = True
    excess: float = 0.0
    largest: float = 0.0
    why: str = ""
    finite: bool = True
    stale_of: str = ""
    repeats: str = ""
    absent: float = 0.0


@dataclass(frozen=True)
class Call:
    """One call of a candidate; see `candidate.Session.call` and `judge.Judge.take`."""

    case: Case
    comparison: Comparison
    outputs: tuple[Output, ...] = ()
    inputs_changed: tuple[int, ...] = ()
    bands_changed: tuple[int, ...] = ()
    late: tuple[int, ...] = ()
    overwritten: bool = False
    threads: tuple[str, ...] = ()
    started: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    """What ran of the solution: a line's number in its file, or `name:number` elsewhere."""
    raised: tuple[tuple[str, str], ...] = ()
    work: tuple[Work, ...] = ()
    seconds: float = 0.0
    """What the call took by its own process's clock, the profiler included where it is observed."""

    @property
    def tells_turn(self) -> bool:
        """Whether it is known of all kernels of an observed call if they started before the call's turn."""
        return all(w.early_us is not None for w in self.work if w.kind == "kernel")


@dataclass(frozen=True)
class Timing:
    """Times of calls in ms by the judge's clock; `wall_ms` is the median until results were handed over.

    `late` are calls whose results changed after they were handed over, `bands` inputs beside which somebody
    wrote, `modified` inputs that timed calls changed, `aliased` inputs whose memory results of timed calls
    share, and `deferred` the number of calls that still computed while results were fetched. `busy` is the
    time that the candidate's threads and the judge's waited for a processor, over the calls' time. `cleared`
    is how long it took at the least to clear the caches of a GPU in ms: before the candidate was loaded,
    while calls waited to begin, when results had been handed over, and when the candidate's process had
    ended. `restless` are calls before which the process ran while it was stopped for inputs to come, `helped`
    those in which processes worked that it had started, `unready` those that returned before their results
    were there, and `forged` those on a GPU that were marked as done before they could begin. `crowded` says
    what shows that other processes used the GPU, empty where nothing does.
    """

    calls: tuple[float, ...] = ()
    wall_ms: float | None = None
    late: tuple[str, ...] = ()
    bands: tuple[int, ...] = ()
    deferred: int = 0
    busy: float = 0.0
    cleared: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    restless: tuple[str, ...] = ()
    helped: tuple[str, ...] = ()
    forged: tuple[str, ...] = ()
    modified: tuple[int, ...] = ()
    aliased: tuple[int, ...] = ()
    unready: tuple[str, ...] = ()
    crowded: str = ""

    @property
    def is_disturbed(self) -> bool:
        """Whether other work kept processors busy."""
        return self.busy > BUSY

    @property
    def ms(self) -> float | None:
        """The time of a call: the median, or that of the calls that were disturbed least."""
        if not self.calls:
            return None
        if not self.is_disturbed:
            return median(self.calls)
        return sorted(self.calls)[min(max(1, len(self.calls) // 10), len(self.calls) - 1)]

    @property
    def decisive(self) -> list[int]:
        """The calls that the time stands or falls with: those that are not slower than it, where it is that
        of the calls that were disturbed least."""
        ms = self.ms
        if ms is None or not self.is_disturbed:
            return []
        return [n for n, one in enumerate(self.calls) if one <= ms]

    @property
    def interval(self) -> tuple[float, float] | None:
        """An interval in ms that holds the median; None where other work disturbed the calls."""
        return None if self.is_disturbed or not self.calls else interval(self.calls)


@dataclass(frozen=True)
class Reference:
    """What the reference is like; see `referee.Referee.facts`."""

    constant: bool = False
    weak: bool = False
    random: bool = False
    modifies: tuple[int, ...] = ()
    aliases: bool = False
    work: tuple[Work, ...] = ()
    ms: float | None = None
    notes: tuple[str, ...] = ()
    probes: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    card: str = ""
    rounded: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    absent: float = 0.0
    roughest: tuple[str, ...] = ()
    fixed: tuple[int, ...] = ()
    """Inputs that the problem draws alike for all seeds."""
    spread: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Bound:
    """The speed of light of the problem: the lowest bound that any permitted arithmetic has, in ms.

    A time may be as low as `least_ms`, since results may still be in the card's cache when a call ends; where
    that is not known it is the bound. One that is not `whole` leaves out work that is not understood: nothing
    is faster, but how near to it a time may come is not known.
    """

    ms: float
    note: str = ""
    whole: bool = True
    cached_ms: float | None = None
    """The bound where as many of the results as fit stay in the cache."""

    @property
    def least_ms(self) -> float:
        return self.ms if self.cached_ms is None else self.cached_ms


@dataclass(frozen=True)
class Observations:
    """Everything that was seen."""

    device: str
    precision: str
    source: ast.Module | None
    calls: Sequence[Call]
    timed: Sequence[Call]
    """Calls of the timed series, which are compared too."""
    timing: Timing
    reference: Reference
    bound: Bound | None
    changed: Sequence[str]
    """Names that the candidate has made stand for something else."""
    seen: Sequence[str]
    """Ways in which it has looked into the process that runs it."""
    libraries: Sequence[str] = ()
    """Files of machine code in its memory, as the system tells."""
    looks: Sequence[Look] = ()
    """What was seen when timed calls were stopped."""
    operations: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """PyTorch's operations in timed calls on a GPU, as its profiler tells, by the names of the calls."""

    @property
    def compared(self) -> Iterator[Call]:
        """The calls that say whether results are right."""
        return (c for c in (*self.calls, *self.timed) if c.comparison.judged)

    @property
    def observed(self) -> Sequence[Call]:
        """The calls that ran under the profiler."""
        return [c for c in self.calls if c.case.observe]

    @property
    def before(self) -> Sequence[Call]:
        """Those of them that were made before any call was timed."""
        return [c for c in self.observed if not c.case.is_amid]

    @property
    def amid(self) -> Sequence[Call]:
        """Those of them that were made between timed calls."""
        return [c for c in self.observed if c.case.is_amid]

    @property
    def streams(self) -> Sequence[int]:
        """The streams on which kernels of the solution run."""
        return sorted({w.stream for c in self.calls for w in c.work if w.kind == "kernel"})

    @property
    def tells_turns(self) -> bool:
        """Whether most observed calls amid the series tell of all their kernels if they started before the
        call's turn."""
        return sum(call.tells_turn for call in self.amid) > TOLD * len(self.amid)

    @property
    def correct(self) -> bool:
        return all(c.comparison.correct for c in self.compared)


def work_from(rows: object) -> tuple[Work, ...]:
    """Decode rows of `watch.observed`. Raises ValueError for others, which a candidate's process may
    write."""
    found = from_json(tuple[Work, ...], rows)
    for work in found:
        for us in (work.us, work.late_us, work.early_us or 0.0):
            finite(us)
    return found


def finite(value: float) -> float:
    """Return a number. Raises ValueError for an infinite one, and where it is none."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is no time")
    return value


def signs_from(said: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Decode the signs of tampering that the candidate's process tells. Raises ValueError."""
    return {name: _texts(said.get(name, ())) for name in ("changed", "seen")}


def operations_from(said: object) -> tuple[frozenset[str] | None, ...]:
    """Decode the names of operations of timed calls, None for one of which none are told. Raises
    ValueError."""
    found = from_json(tuple[tuple[str, ...] | None, ...], said)
    return tuple(None if names is None else frozenset(names) for names in found)


def _numbers(values: object) -> tuple[int, ...]:
    return from_json(tuple[int, ...], values)


def _texts(values: object) -> tuple[str, ...]:
    return from_json(tuple[str, ...], values)


def call_from(case: Case, said: Mapping[str, Any], comparison: Comparison) -> Call:
    """Parse what the candidate's process says about one call.

    Raises ValueError, TypeError, KeyError or AttributeError for any other form.
    """
    return Call(
        case,
        comparison,
        tuple(
            Output(
                str(o.get("dtype", "")),
                _numbers(o.get("shape", ())),
                str(o.get("device", "")),
                _numbers(o.get("aliases", ())),
                o.get("value"),
                str(o.get("subclass", "")),
                bool(o.get("shares_elements")),
            )
            for o in said["outputs"]
        ),
        _numbers(said.get("inputs_changed", ())),
        _numbers(said.get("bands_changed", ())),
        _numbers(said.get("late", ())),
        bool(said.get("overwritten")),
        _texts(said.get("threads", ())),
        _texts(said.get("started", ())),
        _texts(said.get("lines", ())),
        from_json(tuple[tuple[str, str], ...], said.get("raised", ())),
        work_from(said.get("work", ())),
        finite(float(said.get("seconds", 0.0))),
    )
