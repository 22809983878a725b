"""The reference: computes what was to come in float64, and compares, once the candidate's process has ended.
Imports torch.
"""

from __future__ import annotations

import copy
import importlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from statistics import median
from typing import Any, NamedTuple

from mucc.agent.audit import watch
from mucc.agent.audit.cases import KINDS, Case
from mucc.agent.audit.clocks import clock
from mucc.agent.audit.inputs import drift, leaves, make_inputs, sampled, seed
from mucc.agent.audit.memory import tidy
from mucc.agent.audit.rounding import NEAREST, OF_INPUTS, TRUNCATED, permitted, round_weights
from mucc.agent.audit.slots import Slot
from mucc.agent.audit.spread import spread
from mucc.agent.audit.threads import bytes_of, few
from mucc.api.importer import OpenedProblem, Request, parse_problem, raised
from mucc.api.json_types import Json
from mucc.api.measure import UNKNOWN, Compared, compared, form, in_float64, rms

torch: Any = importlib.import_module("torch")

SLOW = 2.0
"""Seconds of a call in float64 after which later cases do without."""

WARM = 3

BRIEF = 0.2
"""Seconds of a call in float64 up to which the reference is run with rounded operands too."""

SMALLEST_STEP = 2.0**-22
"""Relative changes of results (rms) that are smaller say nothing of how operands were rounded."""

DEVIATIONS = 4.0
"""Standard deviations by which the share of such a change in a candidate's results may be off by chance."""

DISTURBED = 0.5
"""The least share of wall time that a call spends on a processor; below it other work delayed the call."""


class Given(NamedTuple):
    """What a candidate gave for a case: its description, and the elements that are compared."""

    case: Case
    described: Sequence[Json]
    got: Sequence[Any]


class Judged:
    """What a candidate returned for a case, and what was to come."""

    def __init__(self, case: Case, inputs: Sequence[Any]):
        self.case = case
        self.got: list[Any] = []
        self.want: list[Any] = []
        self.own: list[Any] = []
        self.inputs: Sequence[Sequence[int]] = [
            list(v.shape) for v in leaves(inputs) if isinstance(v, torch.Tensor)
        ]


class Referee:
    """The reference, on inputs made as the candidate's were."""

    def __init__(self, request: Json):
        self.device = torch.device(request["device"])
        self.precision = str(request["precision"])
        asked = Request.from_json(request["problem"])
        self.shown = asked.shown
        self.problem = OpenedProblem(asked, parse_problem(asked.shown, asked.text))
        torch.manual_seed(request["seed"])
        with self.device if request["draws_there"] else nullcontext():
            self.model = self.problem.model().to(self.device)
        self.weights = [*self.model.parameters(), *self.model.buffers()]
        self.exact: Any = None
        self.narrow: Any = None
        """The model that computes in what the policy permits, where that is not as declared."""
        self.noise = 0.0
        """The largest error of PyTorch's own results over their rms, as far as exact ones are known."""
        self.notes: list[str] = []
        self.modifies: set[int] = set()
        self.aliases = False
        self.first: Case | None = None
        self.changes: bool | None = None
        self.judged: list[Judged] = []
        self.seconds = 0.0
        """Seconds that the reference took for the last call in float64."""

    def judge(self, given: Given) -> Json:
        """Compare one case. Where a call changes what the next one gives, calls are judged in their order."""
        case = given.case
        self.first = self.first or case
        tidy(self.device)
        inputs = make_inputs(self.problem, case, self.device)
        with few(bytes_of([*leaves(inputs), *self.weights])):
            return self._judged(given, inputs)

    def _judged(self, given: Given, inputs: tuple[Any, ...]) -> Json:
        case, described = given.case, given.described
        precise = not case.is_timed or bool(case.probe) or self._changes()
        exact, own, narrow = self._expected(case, inputs, precise)
        if len(own) != len(described):
            return {"correct": False, "why": f"{len(described)} results, {len(own)} expected", "judged": True}
        worst, largest, why = 0.0, 0.0, ""
        judged = Judged(case, inputs)
        for n, (ref, mine, rounded, said) in enumerate(zip(exact, own, narrow, described, strict=True)):
            if not isinstance(mine, torch.Tensor):
                same = said.get("value") == mine
                worst = max(worst, 0.0 if same else math.inf)
                why = why or ("" if same else f"result {n} is {said.get('value')!r}, {mine!r} expected")
                continue
            if problem := form(n, mine, str(said.get("dtype")), said.get("shape")):
                return {"correct": False, "why": problem, "judged": True}
            if given.got[n] is None:
                return {"correct": False, "why": f"result {n} was not handed over whole", "judged": True}
            want, near, rough = (
                None if v is None else sampled(v.reshape(-1), case.sample, case.most)
                for v in (ref, mine, rounded)
            )
            got = given.got[n].to(self.device) if mine.numel() else torch.empty_like(mine).reshape(-1)
            judged.got.append(got)
            judged.want.append(want)
            judged.own.append(near)
            excess, off, reason, _ = self._compared(got, want, near, rough, near is want or ref is mine)
            worst, largest = max(worst, excess), max(largest, off)
            why = why or (f"result {n} {reason}" if excess > 1 else "")
        finite = all(bool(torch.isfinite(w).all()) for w in judged.own if w.is_floating_point())
        answer: Json = {
            "correct": worst <= 1,
            "excess": min(worst, 1e30),
            "largest": min(largest, 1e30),
            "why": why,
            "judged": finite or case.is_stated,
            "finite": all(bool(torch.isfinite(g).all()) for g in judged.got if g.is_floating_point()),
        }
        if worst > 1:
            answer["stale_of"] = self._stale(judged)
        answer["repeats"] = self._repeats(judged)
        self.judged.append(judged)
        return answer

    def _expected(
        self, case: Case, inputs: tuple[Any, ...], precise: bool = True
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Results in float64, in PyTorch's own arithmetic, and in what the policy permits, None where that is
        the same. Without `precise` PyTorch's own stand for the exact ones."""
        if self.exact is None:
            self.exact = copy.deepcopy(self.model).double()
            self.narrow = None if self.precision == "declared" else copy.deepcopy(self.model)
        narrow = self._narrow(case, inputs)
        whole = self._precise(case, inputs) if precise and self.exact is not False else None
        tensors = [v for v in leaves(inputs) if isinstance(v, torch.Tensor)]
        before = [(t._version, t.data_ptr(), t.numel() * t.element_size()) for t in tensors]
        own = leaves(self._run(self.model, case, inputs))
        for n, (t, (version, start, size)) in enumerate(zip(tensors, before, strict=True)):
            if t._version != version:
                self.modifies.add(n)
            for out in own:
                if isinstance(out, torch.Tensor) and size and start <= out.data_ptr() < start + size:
                    self.aliases = True
        whole = whole if whole is not None and len(whole) == len(own) else own
        return whole, own, narrow if len(narrow) == len(own) else [None] * len(own)

    def _changes(self) -> bool:
        """Whether a call of the reference changes what the next one gives: its inputs, or its state."""
        if self.changes is None:
            model = copy.deepcopy(self.model)
            first, again = (
                [
                    v
                    for v in leaves(self._run(model, self._first_case(), self._first()))
                    if isinstance(v, torch.Tensor)
                ]
                for _ in range(2)
            )
            differs = any(self._compared(a, b, b)[0] > 1 for a, b in zip(first, again, strict=True))
            self.changes = differs or bool(self.modifies)
        return self.changes

    def _first_case(self) -> Case:
        assert self.first, "a case was judged"
        return self.first

    def _narrow(self, case: Case, inputs: tuple[Any, ...]) -> list[Any]:
        if self.narrow is None:
            return []
        with suppress(Exception), permitted(self.precision):
            return leaves(self._run(self.narrow, case, torch.utils._pytree.tree_map(_copied, inputs)))
        return []

    def _precise(self, case: Case, inputs: tuple[Any, ...]) -> list[Any] | None:
        """Results in float64; the last ones where that is slow, none where it cannot be done."""
        started = time.monotonic()
        try:
            found = leaves(self._run(self.exact, case, torch.utils._pytree.tree_map(in_float64, inputs)))
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
        except Exception as error:
            self.notes.append(f"no reference in float64: {type(error).__name__}: {str(error)[:120]}")
            self.exact, self.noise = False, self.noise or UNKNOWN
            return None
        self.seconds = seconds = time.monotonic() - started
        if seconds > SLOW:
            said = f"cases after '{case.name}' have no reference in float64, which took {seconds:.1f} s"
            self.notes.append(said)
            self.exact = False
        return found

    def _run(self, model: Any, case: Case, inputs: Any) -> Any:
        seed(case.call, self.device)
        try:
            with torch.no_grad():
                return model(*inputs)
        except Exception as error:
            if model is self.model:
                raise raised(self.shown, "Model", error) from None
            raise

    def _compared(self, got: Any, want: Any, near: Any, narrow: Any = None, rough: bool = False) -> Compared:
        """Return a result against the exact one and PyTorch's own; `rough` says that these are the same."""
        noise = self.noise if self.exact is False or rough else 0.0
        found = compared(got, want, near, self.precision, noise, narrow)
        self.noise = max(self.noise, found.noise)
        return found

    def _fits(self, got: Sequence[Any], other: Judged) -> bool:
        """Whether results would do for another case."""
        return (
            bool(got)
            and len(got) == len(other.want)
            and all(
                g.shape == w.shape and self._compared(g, w, n)[0] <= 1
                for g, w, n in zip(got, other.want, other.own, strict=True)
            )
        )

    def _stale(self, judged: Judged) -> str:
        """Return the earlier case whose result came instead, where elements can be told apart."""
        for other in reversed(self.judged):
            comparable = other.case.sample == judged.case.sample or (_whole(judged) and _whole(other))
            if comparable and not other.case.probe and self._fits(judged.got, other):
                return other.case.name
        return ""

    def _repeats(self, judged: Judged) -> str:
        """Return an earlier case, of other inputs, with the same result to the bit."""
        for other in self.judged:
            if other.case.seed == judged.case.seed or not _whole(judged) or not judged.got:
                continue
            if len(other.got) == len(judged.got) and all(
                a.shape == b.shape and torch.equal(a, b) for a, b in zip(other.got, judged.got, strict=True)
            ):
                return other.case.name
        return ""

    def facts(self, *, known: bool) -> Json:
        """Measure the reference: whether it is worth anything as a measure, and its operations.

        `known` leaves out what is the same whatever the candidate, and takes long.
        """
        untimed = [j for j in self.judged if not j.case.is_timed]
        stated = [j for j in untimed if j.case.is_stated]
        usable = [j for j in untimed if not j.case.probe]
        first = stated[0] if stated else None
        fits = [self._constant(first, j) for j in usable if j is not first] if first else []
        weak = (
            [self._constant(first, j) for j in stated if j is not first and j.case.seed != first.case.seed]
            if first
            else []
        )
        found: Json = {
            "constant": bool(fits) and all(fits),
            "weak": bool(weak) and all(weak),
            "modifies": sorted(self.modifies),
            "aliases": self.aliases,
            "probes": self._probes(),
            "rounded": self._rounded(stated),
            "spread": spread(stated, self._moved) if weak and all(weak) and self.exact is not False else {},
            "card": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "",
        }
        if not known:
            found |= {"random": self._is_random(), "work": self._work()}
        return found | {"notes": list(dict.fromkeys(self.notes))}

    def _work(self) -> list[Json]:
        """Return the operations and kernels of a call."""
        inputs, case = self._first(), self.first
        assert case
        return watch.observed(lambda: self._run(self.model, case, inputs), self.device)[1]

    def _first(self) -> tuple[Any, ...]:
        return make_inputs(self.problem, self._first_case(), self.device)

    def _constant(self, first: Judged, other: Judged) -> bool:
        """Whether what is expected for one case would do for another."""
        return self._fits(first.own, other) or (
            not _whole(first)
            and self._fits([_mean_like(w, n) for w, n in zip(first.want, first.own, strict=True)], other)
        )

    def _is_random(self) -> bool:
        assert self.first
        inputs = [self._first() for _ in range(2)]
        results: list[list[Any]] = []
        for n, values in enumerate(inputs):
            seed(self.first.seed + 1 + n, self.device)
            with torch.no_grad():
                results.append([v for v in leaves(self.model(*values)) if isinstance(v, torch.Tensor)])
        return any(
            self._compared(a.reshape(-1), b.reshape(-1), b.reshape(-1))[0] > 1
            for a, b in zip(*results, strict=True)
        )

    def timed(self, runs: int) -> float:
        """Return the median time of a call in ms, from a cold cache, on inputs that take turns.

        On a CPU that other work keeps busy, it is what processors spent on a call.
        """
        slots = [Slot() for _ in range(2)]
        for slot in slots:
            slot.fill(self._first(), 0)
        watch_, spent = clock(self.device), list[int]()
        with torch.no_grad():
            for n in range(WARM + runs):
                if n == WARM:
                    watch_.times()
                watch_.flush()
                for own in slots[n % 2].guarded:
                    drift(own.tensor)
                before = time.process_time_ns()
                watch_.begin()
                self.model(*slots[n % 2].values)
                watch_.end()
                spent.append(time.process_time_ns() - before)
        ms, cpu_ms = median(t.ms for t in watch_.times()), median(spent[WARM:]) / 1e6
        return cpu_ms if self.device.type == "cpu" and cpu_ms < DISTURBED * ms else ms

    def _probes(self) -> dict[str, dict[str, float]]:
        """How far digits that a format drops move the candidate's, PyTorch's and exact results (rms), for the
        pair of calls where the candidate's move least."""
        found: dict[str, dict[str, float]] = {}
        pairs: dict[tuple[str, bool, int], dict[str, Judged]] = {}
        for judged in self.judged:
            name, _, kind = judged.case.probe.partition(" ")
            if name:
                pairs.setdefault((name, judged.case.is_timed, judged.case.seed), {})[kind] = judged
        for (name, *_), pair in pairs.items():
            one, other = (pair.get(kind) for kind in KINDS)
            if one is None or other is None or not one.got or len(one.got) != len(other.got):
                continue
            if any(w.dtype != torch.float32 for w in one.own):
                continue
            moved = {
                "candidate": _moved(one.got, other.got),
                "pytorch": _moved(one.own, other.own),
                "exact": _moved(one.want, other.want),
            }
            if name not in found or _share(moved) < _share(found[name]):
                found[name] = moved
        return found

    def _moved(self, case: Case, by: float) -> list[Any]:
        """Return the exact results of a case whose inputs are multiplied by a number, as far as these are
        compared; none where they cannot be computed."""
        inputs = torch.utils._pytree.tree_map(in_float64, make_inputs(self.problem, case, self.device))

        def times(value: Any) -> Any:
            is_number = isinstance(value, torch.Tensor) and value.is_floating_point()
            return value * by if is_number else value

        found = self._precise(case, torch.utils._pytree.tree_map(times, inputs)) or []
        tensors = [v for v in found if isinstance(v, torch.Tensor)]
        return [sampled(v.reshape(-1), case.sample, case.most) for v in tensors]

    def _rounded(self, stated: Sequence[Judged]) -> dict[str, dict[str, float]]:
        """How much of the error that comes of rounding weights or inputs is in the candidate's results at the
        least, and in PyTorch's, by formats: all of it is 1. Of two cases the one with less, in the rounding
        with most.

        Probes change inputs alone, as weights are the candidate's from its start, and need two calls that may
        be told from others by what they share.
        """
        cases = _first_of_each([j for j in stated if j.got and _whole(j)])[:2]
        if self.exact is False or self.seconds > BRIEF or len(cases) < 2 or self._changes():
            return {}
        found: dict[str, dict[str, float]] = {}
        for name, model, way in self._roundings():
            parts = [p for j in cases if (p := self._part(j, model, way)) is not None]
            if len(parts) == len(cases):
                least = {k: min(p[k] for p in parts) for k in parts[0]}
                if name not in found or least["candidate"] > found[name]["candidate"]:
                    found[name] = least
        return found

    def _roundings(self) -> Iterator[tuple[str, Any, Callable[[Any], Any]]]:
        """Yield formats by name, with a model in float64 and what is to be done to its inputs: its weights
        are rounded, or these."""
        for ways in (NEAREST, TRUNCATED):
            for name, way in ways.items():
                model = copy.deepcopy(self.model)
                if round_weights(model, way):
                    yield name, model.double(), _as_it_is
            for name in OF_INPUTS:
                yield name, self.exact, ways[name]

    def _part(self, judged: Judged, model: Any, way: Callable[[Any], Any]) -> dict[str, float] | None:
        """Return how far results moved from the exact ones towards those of a model, as shares of the way: of
        the candidate at the least, and of PyTorch in f32. None if these two differ in last digits only."""

        def prepared(value: Any) -> Any:
            is_f32 = isinstance(value, torch.Tensor) and value.dtype == torch.float32
            return in_float64(way(value.contiguous()) if is_f32 else value)

        inputs = torch.utils._pytree.tree_map(prepared, make_inputs(self.problem, judged.case, self.device))
        others = [v.reshape(-1) for v in leaves(self._run(model, judged.case, inputs))]
        steps, errors, own = list[Any](), list[Any](), list[Any]()
        size = 0.0
        for want, other, got, near in zip(judged.want, others, judged.got, judged.own, strict=True):
            if near.dtype == torch.float32:
                steps.append(other - want)
                errors.append(got.double() - want)
                own.append(near.double() - want)
                size += float((want * want).sum())
        if not steps:
            return None
        step, error, mine = map(torch.cat, (steps, errors, own))
        length = float((step * step).sum())
        gone, theirs = float((error * step).sum()), float((mine * step).sum())
        if not math.isfinite(gone + theirs + length) or length <= size * SMALLEST_STEP**2:
            return None
        rest = error - gone / length * step
        doubt = DEVIATIONS * math.sqrt(float((rest * rest).sum()) / rest.numel() / length)
        return {"candidate": max(gone / length - doubt, 0.0), "pytorch": theirs / length}


def _first_of_each(judged: Sequence[Judged]) -> list[Judged]:
    """Return the first call for each inputs: who knows that they come again may compute otherwise then."""
    return list({j.case.seed: j for j in reversed(judged)}.values())[::-1]


def _as_it_is(value: Any) -> Any:
    return value


def _share(moved: Mapping[str, float]) -> float:
    """Return how much of a change that is due a candidate shows."""
    return moved["candidate"] / moved["exact"] if moved["exact"] else math.inf


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _whole(judged: Judged) -> bool:
    """Whether all elements were compared."""
    return all(r.numel() < judged.case.most for r in judged.own)


def _mean_like(want: Any, own: Any) -> Any:
    """Return the mean of a result in every place."""
    return torch.full_like(own, float(want.double().mean())) if own.is_floating_point() else own


def _moved(before: Sequence[Any], after: Sequence[Any]) -> float:
    """Return the root mean square of differences, each result relative to its own size."""
    total = 0.0
    for a, b in zip(before, after, strict=True):
        size = float(rms(a.double()))
        total += float(rms(b.double() - a.double())) / size if size and math.isfinite(size) else 0.0
    return total if math.isfinite(total) else 0.0
