"""Compute the reference in float64 and compare a candidate's results with it. Imports torch.

This begins when the candidate's process has ended: before, no expected result exists.
"""

from __future__ import annotations

import copy
import importlib
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from statistics import median
from typing import Any, NamedTuple

from mucc.agent.audit import watch
from mucc.agent.audit.absent import absent_share
from mucc.agent.audit.cases import Case
from mucc.agent.audit.clocks import clock
from mucc.agent.audit.digits import probes, rounded
from mucc.agent.audit.inputs import drift, leaves, make_inputs, sampled, seed, tensors
from mucc.agent.audit.memory import tidy
from mucc.agent.audit.rounding import permitted
from mucc.agent.audit.slots import Slot
from mucc.agent.audit.spread import spread
from mucc.agent.audit.threads import bytes_of, few
from mucc.api.importer import OpenedProblem, Request, parse_problem, raised
from mucc.api.json_types import Json
from mucc.api.measure import UNKNOWN, Compared, compared, form, in_float64, rms

torch: Any = importlib.import_module("torch")

SLOW = 2.0
"""Seconds of a call in float64, of processors on a CPU that others keep busy; after a longer one later cases
are compared with results in f32."""

WARM = 3

BRIEF = 0.2
"""Seconds that a call in float64 may take for the reference to be run with rounded operands as well."""

ROUGHEST = 2
"""Calls whose errors are compared with those of rounded operands."""

DISTURBED = 0.5
"""The share of wall time that a call spends on processors; below it other work has delayed the call."""


class Given(NamedTuple):
    """What a candidate returned for a case: the description of each result, and the elements to compare."""

    case: Case
    described: Sequence[Json]
    got: Sequence[Any]


class Judged:
    """A compared case. Of each result the elements `got`, the exact ones `want`, PyTorch's `own`; flat."""

    def __init__(self, case: Case, inputs: Sequence[Any]):
        self.case = case
        self.got: list[Any] = []
        self.want: list[Any] = []
        self.own: list[Any] = []
        self.error = 0.0
        """How far results are from PyTorch's own, relative to their size (rms)."""
        self.inputs: Sequence[Sequence[int]] = [list(v.shape) for v in tensors(inputs)]


class Referee:
    """The reference module. It makes the inputs of each case again, from the seeds."""

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
        """The model with products in the format of the policy, where the policy permits a narrower one."""
        self.noise = 0.0
        """The largest error of PyTorch's own results so far, over their rms, where exact ones are known."""
        self.notes: list[str] = []
        self.modifies: set[int] = set()
        self.aliases = False
        self.first: Case | None = None
        self.changes: bool | None = None
        self.judged: list[Judged] = []
        self.absent = 0.0
        self.roughest: list[str] = []
        """Two calls that are compared with rounded operands; `absent` is the share of elements that are in
        neither of their results."""
        self.seconds = 0.0
        """Seconds that the reference took for the last call in float64."""

    def judge(self, given: Given) -> Json:
        """Compare one case; return a `Comparison`. A reference with a state needs the calls in order."""
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
        worst, largest, absent, why = 0.0, 0.0, 0.0, ""
        judged = Judged(case, inputs)
        for n, (ref, mine, policys, said) in enumerate(zip(exact, own, narrow, described, strict=True)):
            if not isinstance(mine, torch.Tensor):
                excess = self._excess(said.get("value"), ref, mine)
                worst = max(worst, excess)
                why = why or (
                    "" if excess <= 1 else f"result {n} is {said.get('value')!r}, {mine!r} expected"
                )
                continue
            if problem := form(n, mine, str(said.get("dtype")), said.get("shape")):
                return {"correct": False, "why": problem, "judged": True}
            if given.got[n] is None:
                return {"correct": False, "why": f"result {n} was not handed over whole", "judged": True}
            want, near, rough = (
                None if v is None else sampled(v.reshape(-1), case.sample, case.most)
                for v in (ref, mine, policys)
            )
            got = given.got[n].to(self.device) if mine.numel() else torch.empty_like(mine).reshape(-1)
            judged.got.append(got)
            judged.want.append(want)
            judged.own.append(near)
            if want is not near:  # else what is exact is not known
                absent = max(absent, absent_share(got, want, near))
            judged.error = max(judged.error, _error(got, near))
            excess, off, reason, _ = self._compared(got, want, near, rough, near is want or ref is mine)
            worst, largest = max(worst, excess), max(largest, off)
            why = why or (f"result {n} {reason}" if excess > 1 else "")
        finite = all(bool(torch.isfinite(w).all()) for w in judged.own if w.is_floating_point())
        answer: Json = {
            "correct": worst <= 1,
            "excess": min(worst, 1e30),
            "largest": min(largest, 1e30),
            "why": why,
            "absent": absent,
            "judged": finite or case.is_stated,
            "finite": all(bool(torch.isfinite(g).all()) for g in judged.got if g.is_floating_point()),
        }
        if worst > 1:
            answer["stale_of"] = self._stale(judged)
        answer["repeats"] = self._repeats(judged)
        self.judged.append(judged)
        return answer

    def _excess(self, value: object, want: Any, near: Any) -> float:
        """Return how far off a result is that is no tensor: a number with a fraction is tolerated as one in a
        tensor of f32 is, anything else has to be the same."""
        if value == near:
            return 0.0
        if not all(type(one) is float for one in (value, want, near)):
            return math.inf
        return self._compared(*(torch.tensor([one]) for one in (value, want, near)))[0]

    def _expected(
        self, case: Case, inputs: tuple[Any, ...], precise: bool = True
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Return results in float64, in PyTorch's own arithmetic, and in the format of the policy.

        The last are None where the policy is as declared. Without `precise` PyTorch's own results stand for
        those in float64.
        """
        if self.exact is None:
            self.exact = copy.deepcopy(self.model).double()
            self.narrow = None if self.precision == "declared" else copy.deepcopy(self.model)
        narrow = self._narrow(case, inputs)
        whole = self._precise(case, inputs) if precise and self.exact is not False else None
        given = tensors(inputs)
        before = [(t._version, t.data_ptr(), t.numel() * t.element_size()) for t in given]
        own = leaves(self._run(self.model, case, inputs))
        for n, (t, (version, start, size)) in enumerate(zip(given, before, strict=True)):
            if t._version != version:
                self.modifies.add(n)
            for out in own:
                if isinstance(out, torch.Tensor) and size and start <= out.data_ptr() < start + size:
                    self.aliases = True
        whole = whole if whole is not None and len(whole) == len(own) else own
        return whole, own, narrow if len(narrow) == len(own) else [None] * len(own)

    def _changes(self) -> bool:
        """Whether a call of the reference changes its inputs, or the result of the next call."""
        if self.changes is None:
            model = copy.deepcopy(self.model)
            first, again = (tensors(self._run(model, self._first_case(), self._first())) for _ in range(2))
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
        """Return results in float64, None where they cannot be computed; slow ones are the last."""
        started, before = time.monotonic(), time.process_time()
        try:
            found = leaves(self._run(self.exact, case, torch.utils._pytree.tree_map(in_float64, inputs)))
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
        except Exception as error:
            self.notes.append(f"no reference in float64: {type(error).__name__}: {str(error)[:120]}")
            self.exact, self.noise = False, self.noise or UNKNOWN
            return None
        seconds = time.monotonic() - started
        if self.device.type == "cpu":
            seconds = min(seconds, time.process_time() - before)
        self.seconds = seconds
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
        """Compare a result with the exact one and PyTorch's own; `rough`: the exact one is not known."""
        noise = self.noise if self.exact is False or rough else 0.0
        found = compared(got, want, near, self.precision, noise, narrow)
        self.noise = max(self.noise, found.noise)
        return found

    def _fits(self, got: Sequence[Any], other: Judged) -> bool:
        """Whether results would be right for another case."""
        return (
            bool(got)
            and len(got) == len(other.want)
            and all(
                g.shape == w.shape and self._compared(g, w, n)[0] <= 1
                for g, w, n in zip(got, other.want, other.own, strict=True)
            )
        )

    def _stale(self, judged: Judged) -> str:
        """Return the name of an earlier case for which a result would be right, or ""."""
        for other in reversed(self.judged):
            comparable = other.case.sample == judged.case.sample or (_whole(judged) and _whole(other))
            if comparable and not other.case.probe and self._fits(judged.got, other):
                return other.case.name
        return ""

    def _repeats(self, judged: Judged) -> str:
        """Return the name of an earlier case of other inputs with the same result, to the bit, or ""."""
        for other in self.judged:
            if other.case.seed == judged.case.seed or not _whole(judged) or not judged.got:
                continue
            if len(other.got) == len(judged.got) and all(
                a.shape == b.shape and torch.equal(a, b) for a, b in zip(other.got, judged.got, strict=True)
            ):
                return other.case.name
        return ""

    def facts(self, *, known: bool) -> Json:
        """Return facts of the reference, such as whether its result depends on its inputs, and of digits.

        `known` leaves out those that do not depend on the candidate, which take long.
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
            "probes": probes(self.judged),
            "rounded": self._rounded(stated),
            "absent": self.absent,
            "roughest": self.roughest,
            "spread": self._spread(stated) if weak and all(weak) and self.exact is not False else {},
            "card": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "",
        }
        if not known:
            found |= {"random": self._is_random(), "work": self._work(), "fixed": self._fixed(stated)}
        return found | {"notes": list(dict.fromkeys(self.notes))}

    def _spread(self, stated: Sequence[Judged]) -> dict[str, float]:
        timed = [j for j in self.judged if j.case.is_timed and j.case.is_stated and j.got]
        return spread(stated, self._moved, timed)

    def _work(self) -> list[Json]:
        """Return the operations and kernels of a call of the reference."""
        inputs, case = self._first(), self.first
        assert case
        return watch.observed(lambda: self._run(self.model, case, inputs), self.device)[1]

    def _fixed(self, stated: Sequence[Judged]) -> list[int]:
        """Return the inputs, of several, that are the same for other seeds as well."""
        seeds = _first_of_each(stated)[:2]
        drawn = [leaves(make_inputs(self.problem, j.case, self.device)) for j in seeds]
        if len(drawn) < 2 or len(drawn[0]) < 2:
            return []
        tensors = [
            (n, a, b) for n, (a, b) in enumerate(zip(*drawn, strict=True)) if isinstance(a, torch.Tensor)
        ]
        return [n for n, a, b in tensors if a.numel() > 1 and torch.equal(a, b)]

    def _first(self) -> tuple[Any, ...]:
        return make_inputs(self.problem, self._first_case(), self.device)

    def _constant(self, first: Judged, other: Judged) -> bool:
        """Whether the expected result of one case would be right for another."""
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
                results.append(tensors(self.model(*values)))
        return any(
            self._compared(a.reshape(-1), b.reshape(-1), b.reshape(-1))[0] > 1
            for a, b in zip(*results, strict=True)
        )

    def timed(self, runs: int) -> float:
        """Return the median time of a call of the reference in ms, with cold caches, on alternating inputs.

        On a CPU that other work keeps busy, it is the time that processors spent on a call.
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

    def _moved(self, case: Case, by: float) -> list[Any]:
        """Return the exact results, as far as elements are compared, for the inputs of a case times a number.

        The list is empty where they cannot be computed.
        """
        inputs = torch.utils._pytree.tree_map(in_float64, make_inputs(self.problem, case, self.device))

        def times(value: Any) -> Any:
            is_number = isinstance(value, torch.Tensor) and value.is_floating_point()
            return value * by if is_number else value

        found = tensors(self._precise(case, torch.utils._pytree.tree_map(times, inputs)) or [])
        return [sampled(v.reshape(-1), case.sample, case.most) for v in found]

    def _rounded(self, stated: Sequence[Judged]) -> dict[str, dict[str, float]]:
        """Return how much of the error of rounded operands is in results of the candidate (`digits.rounded`).

        These are of the two timed calls with the largest errors, as a solution may round in some calls only;
        of the first two calls where none is timed.
        """
        if self.exact is False or self.seconds > BRIEF or self._changes():
            return {}
        timed = [j for j in self.judged if j.case.is_timed and j.case.is_stated and j.got]
        cases = [self._exactly(j) for j in sorted(timed, key=lambda j: -j.error)[:ROUGHEST]]
        if len(cases) < ROUGHEST:
            cases = _first_of_each([j for j in stated if j.got and _whole(j)])[:ROUGHEST]
        if len(cases) < ROUGHEST or any(c.want is c.own for c in cases):
            return {}
        self.roughest = [c.case.name for c in cases]
        self.absent = min(max(map(absent_share, c.got, c.want, c.own), default=0.0) for c in cases)

        def run(case: Case, model: Any, way: Callable[[Any], Any]) -> Any:
            return self._run(model, case, self._in_float64(case, way))

        return rounded(cases, self.model, self.exact, run)

    def _exactly(self, judged: Judged) -> Judged:
        """Return a call with its results in float64, which are not computed for each timed one."""
        found = copy.copy(judged)
        exact = self._precise(judged.case, make_inputs(self.problem, judged.case, self.device))
        found.want = [
            sampled(v.reshape(-1), judged.case.sample, judged.case.most) for v in tensors(exact or ())
        ]
        return found if exact else judged

    def _in_float64(self, case: Case, way: Callable[[Any], Any]) -> tuple[Any, ...]:
        """Return the inputs of a case in float64, those in f32 changed by a function before."""

        def prepared(value: Any) -> Any:
            is_f32 = isinstance(value, torch.Tensor) and value.dtype == torch.float32
            return in_float64(way(value.contiguous()) if is_f32 else value)

        return torch.utils._pytree.tree_map(prepared, make_inputs(self.problem, case, self.device))


def _first_of_each(judged: Sequence[Judged]) -> list[Judged]:
    """Return the first call with each inputs: a solution may recognise inputs that come again."""
    return list({j.case.seed: j for j in reversed(judged)}.values())[::-1]


def _error(got: Any, near: Any) -> float:
    """Return the root mean square of differences over that of a result."""
    if near.dtype != torch.float32 or not near.numel():
        return 0.0
    size = float(rms(near.double()))
    return float(rms(got.double() - near.double())) / size if size else 0.0


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _whole(judged: Judged) -> bool:
    """Whether all elements of the results were compared."""
    return all(r.numel() < judged.case.most for r in judged.own)


def _mean_like(want: Any, own: Any) -> Any:
    """Return a result with its mean in every place."""
    return torch.full_like(own, float(want.double().mean())) if own.is_floating_point() else own
