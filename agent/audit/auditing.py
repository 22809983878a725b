"""One audit from beginning to end. What decides is made here or in the reference's process."""

from __future__ import annotations

import math
import os
import random
import secrets
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, NamedTuple

from mucc import guard
from mucc.agent.audit.bound import SolProcess
from mucc.agent.audit.cases import SEEDS, Case, plan, timed_case
from mucc.agent.audit.detectors import findings
from mucc.agent.audit.findings import Finding, note
from mucc.agent.audit.observations import (
    Bound,
    Call,
    Comparison,
    Observations,
    Output,
    Reference,
    Timing,
    work_from,
)
from mucc.agent.audit.options import Options
from mucc.agent.audit.process import Child, ChildFailed
from mucc.agent.audit.shapes import with_other_shapes
from mucc.agent.audit.shares import kernels, own_share
from mucc.agent.audit.solutions import Solution, open_solution
from mucc.agent.audit.verdict import Failure, Verdict
from mucc.cli import files
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.frontend.torch_import.request import Request, error_from_json
from mucc.gpu_turns import exclusive_gpu

TORCH = {"cpu": 2 << 30, "cuda": 12 << 30}
"""Bytes of main memory that torch itself may take, with what CUDA keeps there."""

BUDGET = 4.0
"""Seconds that timed calls may take together."""

FEWEST = 5
"""Timed calls that there are at the least."""

SLOTS = 2
"""Sets of inputs that timed calls take turns with."""

TRIES = 3
"""Times that a measurement which may reject is made; the one that says the least counts."""

FEW = 3
"""Calls of the short series that the long one is held against."""


class Entry(NamedTuple):
    """A case, what the candidate's process said of it, and the folder with the results."""

    case: Case
    said: dict[str, Any]
    folder: str


@dataclass
class Run:
    """What came out of the candidate's process, to be compared when it has ended."""

    card: str = ""
    answers: list[Entry] = field(default_factory=list["Entry"])
    timed: list[Entry] = field(default_factory=list["Entry"])
    timing: Timing = field(default_factory=Timing)
    signs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    failure: Failure | None = None


class CandidateFailed(Exception):
    """The candidate raised: an outcome, not an error."""


def audit(problem: str, solution: str, options: Options | None = None) -> Verdict:
    """Judge a solution of a problem. Whatever the solution does is part of the verdict.

    Raises DiagnosticError where nothing can be judged: MU5010 and MU5011 for files, MU7001 without torch,
    MU7010 to MU7015 for the problem file, MU7101 without a GPU, MU7110 and MU7111 for a library that does
    not fit the problem.
    """
    options = options or Options()
    text = files.read_source(problem).text
    request = Request.of(problem, text, name="problem")
    with guard.temporary_folder(tempfile.gettempdir()) as folder:
        opened = open_solution(solution, problem, folder)
        verdict = _Audit(request, opened, options, folder).verdict()
        if not options.shapes or not verdict.accepted:
            return verdict
        quick = replace(options, device=verdict.device, bound=False, bound_us=None, runs=FEWEST)

        def judge(smaller: str) -> Verdict:
            with guard.temporary_folder(folder) as inner:
                return _Audit(replace(request, text=smaller), opened, quick, inner).verdict()

        return with_other_shapes(verdict, text, judge)


class _Audit:
    def __init__(self, request: Request, solution: Solution, options: Options, folder: str):
        self.request, self.solution, self.options, self.folder = request, solution, options, folder
        self.seed = secrets.randbelow(SEEDS) if options.seed is None else options.seed
        self.rng = random.Random(self.seed)
        self.weights = self.rng.randrange(SEEDS)
        self.device = options.device
        self.seconds: dict[str, float] = {}
        self.drifts = [0] * SLOTS

    def verdict(self) -> Verdict:
        started = time.monotonic()
        run = self._candidate()
        self.seconds["candidate"] = time.monotonic() - started
        base = Verdict(
            self.request.shown,
            self.solution.shown,
            self.device,
            run.card,
            self.options.precision,
            self.seed,
            failure=run.failure,
        )
        if run.failure is not None:
            return replace(base, seconds=self.seconds)
        sol = self._sol(run)
        try:
            started = time.monotonic()
            calls, timed, reference = self._referee(run)
            self.seconds["reference"] = time.monotonic() - started
            started = time.monotonic()
            bound, why = self._bound(sol)
            self.seconds["bound"] = time.monotonic() - started
        finally:
            if sol:
                sol.close()
        return self._judged(base, run, calls, timed, reference, bound, why)

    def _judged(
        self,
        base: Verdict,
        run: Run,
        calls: Sequence[Call],
        timed: Sequence[Call],
        reference: Reference,
        bound: Bound | None,
        why: str,
    ) -> Verdict:
        seen = Observations(
            self.device,
            self.options.precision,
            self.solution.tree,
            calls,
            timed,
            run.timing,
            reference,
            bound,
            [str(n) for n in run.signs.get("changed", ())],
            [str(n) for n in run.signs.get("seen", ())],
        )
        found: list[Finding] = [*findings(seen), *([note("sol_ceiling", f"no bound: {why}")] if why else [])]
        ms = median(run.timing.calls) if run.timing.calls else None
        if ms is not None and any(f.detector == "late_work" and "device_ms" in f.facts for f in found):
            ms = median(whole for _, whole in run.timing.whole)
        return replace(
            base,
            findings=found,
            calls=[*calls, *timed],
            time_ms=ms,
            wall_ms=run.timing.wall_ms,
            reference_ms=reference.ms,
            bound=bound,
            own_share=own_share(seen),
            kernels=kernels(seen),
            seconds=self.seconds,
        )

    # The candidate

    def _candidate(self) -> Run:
        run = Run()
        with self._child("candidate") as child:
            try:
                self._open(child, run)
                self._ask(child, do="load", solution=self.solution.path, seed=self.weights)
                first, *others = plan(self.rng)
                self._answer(child, run, first)  # which may compile for long
                with self._alone(child):
                    for case in others:
                        self._answer(child, run, case)
                    self._time(child, run)
                run.signs = self._ask(child, do="signs")
            except (TypeError, ValueError, KeyError, AttributeError) as error:
                run.failure = Failure(f"its process gave an answer that is none: {error!r}", child.printed())
            except (ChildFailed, CandidateFailed) as failed:
                printed = failed.printed if isinstance(failed, ChildFailed) else child.printed()
                what = f"its process {failed}" if isinstance(failed, ChildFailed) else str(failed)
                run.failure = Failure(what, printed)
        return run

    def _answer(self, child: Child, run: Run, case: Case) -> None:
        said = self._ask(child, do="call", case=case.to_json())
        _call(case, said, Comparison(False))
        run.answers.append(Entry(case, said, self._give(child, case)))

    @contextmanager
    def _alone(self, child: Child) -> Generator[None]:
        """While nobody else of this user measures on the GPU; to wait for that costs the child no time."""
        if self.device != "cuda":
            yield
            return
        started = time.monotonic()
        with exclusive_gpu():
            child.extend(time.monotonic() - started)
            yield

    def _child(self, module: str) -> Child:
        memory = (self.options.memory_limit << 20) + TORCH["cuda" if self.device != "cpu" else "cpu"]
        return Child(f"mucc.agent.audit.{module}", self.folder, self.options.time_limit, memory)

    def _problem(self) -> dict[str, Any]:
        return {
            "problem": self.request.to_json(),
            "device": self.device,
            "memory": self.options.memory_limit << 20,
            "seed": self.weights,
            "precision": self.options.precision,
        }

    def _open(self, child: Child, run: Run) -> None:
        """Have the problem file loaded. What goes wrong here is the problem's fault, and raises."""
        try:
            hello = self._ask(child, do="hello")
            if self.device == "auto":
                self.device = "cuda" if hello["cuda"] else "cpu"
            if self.device == "cuda" and not hello["cuda"]:
                raise _error(
                    "MU7101", f"no GPU to audit on: {hello['reason']}", "--device cpu audits on the CPU"
                )
            if self.device == "cpu" and self.solution.is_library:
                raise _error(
                    "MU7101", f"{self.solution.shown} needs a GPU: {hello['reason'] or '--device cpu'}"
                )
            run.card = str(hello["card"]) if self.device == "cuda" else ""
            self._ask(child, do="open", **self._problem())
        except ChildFailed as failed:
            raise self._problem_error(failed) from None

    def _problem_error(self, failed: ChildFailed) -> DiagnosticError:
        shown = self.request.shown
        notes = (f"it printed last:\n{failed.printed}",) if failed.printed else ()
        if "No module named 'torch'" in failed.printed:
            return _error("MU7001", "auditing needs torch", "pip install torch")
        if "did not end" in failed.reason:
            return _error("MU7013", f"{shown} {failed.reason}", "--time-limit gives more time", notes=notes)
        if "memory" in failed.reason or "signal 9" in failed.reason:
            return _error("MU7014", f"{shown} {failed.reason}", "--memory-limit sets the limit", notes=notes)
        return _error("MU7015", f"the process that ran {shown} {failed.reason}", notes=notes)

    def _ask(self, child: Child, **request: Any) -> dict[str, Any]:
        return self._heard(child.ask(**request))

    @staticmethod
    def _heard(answer: dict[str, Any]) -> dict[str, Any]:
        if "errors" in answer:
            raise error_from_json(answer["errors"])
        if "failed" in answer:
            raise CandidateFailed(f"the solution raised {answer['failed']}")
        return answer

    def _give(self, child: Child, case: Case) -> str:
        """Have the last results written; where."""
        folder = os.path.join(self.folder, f"results-{case.name.replace(' ', '-')}")
        os.makedirs(folder)
        self._ask(child, do="give", folder=folder, sample=case.sample)
        return folder

    def _time(self, child: Child, run: Run) -> None:
        """Time calls; the candidate's process does not know how many come, and which are compared.

        What it costs to change inputs between calls is taken from the time by our clock.
        """
        cases = [replace(timed_case(self.rng), slot=slot) for slot in range(SLOTS)]
        self._ask(child, do="ready", cases=[c.to_json() for c in cases])
        self.drifts = [0] * SLOTS
        short, _ = self._series(child, "timed", FEW)
        each = max(median(t[0] for t in short), 1e-3) / 1e3
        runs = min(max(int(BUDGET / 4 / each), FEWEST), self.options.runs)
        times, _ = self._series(child, "timed", runs + self.rng.randrange(FEW))
        run.timed.append(self._last(child, run, cases, len(times), "timed"))
        whole = [t for _ in range(TRIES) for t in self._series(child, "whole", FEWEST)[0]]
        more = FEW + runs + self.rng.randrange(FEW)
        spent: dict[str, float] = {}
        for kind in ["drift", "bare"] * TRIES:
            _, few = self._series(child, kind, FEW)
            _, many = self._series(child, kind, more)
            spent[kind] = min(spent.get(kind, math.inf), max(many - few, 0.0) / (more - FEW))
        run.timed.append(self._last(child, run, cases, more, "timed back to back"))
        run.timing = Timing(
            tuple(t[0] for t in times),
            tuple((t[0], t[1]) for t in whole if t[1] is not None),
            max(spent["bare"] - spent["drift"], 0.0) * 1e3,
        )

    def _series(self, child: Child, kind: str, count: int) -> tuple[list[Any], float]:
        """Several calls, one after another: the times told, and the seconds by our clock.

        On a CPU that is shared, time of its processors says more than time that has passed.
        """
        started, used = time.monotonic(), child.processor_seconds()
        child.tell(*[kind] * count, '{"do": "over"}')
        answer = self._heard(child.answer())
        passed = time.monotonic() - started
        for slot in range(SLOTS):
            self.drifts[slot] += len(range(slot, count, SLOTS))
        if self.device == "cpu":
            passed = min(passed, child.processor_seconds() - used)
        return answer["times"], passed

    def _last(self, child: Child, run: Run, cases: Sequence[Case], count: int, name: str) -> Entry:
        """The result of the last call of a series, with the case that it belongs to."""
        slot = (count - 1) % SLOTS
        case = replace(cases[slot], name=name, drift=self.drifts[slot])
        outputs = run.answers[0].said.get("outputs", [])
        return Entry(case, {"outputs": outputs}, self._give(child, case))

    # The reference

    def _referee(self, run: Run) -> tuple[list[Call], list[Call], Reference]:
        """Compare everything, and say what the reference is like. Raises DiagnosticError."""
        with self._child("referee") as child:
            try:
                self._ask(child, do="load", **self._problem())
                with self._alone(child):
                    calls = [self._call(child, *entry) for entry in run.answers]
                    timed = [self._call(child, *entry) for entry in run.timed]
                    facts = self._ask(child, do="facts", runs=self.options.runs)
            except ChildFailed as failed:
                raise self._problem_error(failed) from None
        return calls, timed, _reference(facts)

    def _call(self, child: Child, case: Case, said: dict[str, Any], folder: str) -> Call:
        found = self._ask(child, do="judge", case=case.to_json(), folder=folder, outputs=said["outputs"])
        return _call(case, said, Comparison(**found))

    # The bound

    def _sol(self, run: Run) -> SolProcess | None:
        card = self.options.card or run.card
        if not self.options.bound or self.options.bound_us is not None or not card:
            return None
        return SolProcess(self.request.path, card)

    def _bound(self, sol: SolProcess | None) -> tuple[Bound | None, str]:
        if self.options.bound_us is not None:
            return Bound(self.options.bound_us / 1e3, "as given"), ""
        return sol.bound(self.options.precision) if sol else (None, "")


def _call(case: Case, said: Mapping[str, Any], comparison: Comparison) -> Call:
    """What the candidate's process said of a call, in order."""
    return Call(
        case,
        comparison,
        tuple(
            Output(
                str(o.get("dtype", "")),
                tuple(o.get("shape", ())),
                str(o.get("device", "")),
                tuple(o.get("aliases", ())),
                o.get("value"),
                str(o.get("subclass", "")),
            )
            for o in said["outputs"]
        ),
        tuple(said.get("inputs_changed", ())),
        tuple(said.get("bands_changed", ())),
        tuple(said.get("late", ())),
        bool(said.get("overwritten")),
        tuple(said.get("threads", ())),
        tuple(said.get("started", ())),
        tuple(said.get("lines", ())),
        tuple((line, name) for line, name in said.get("raised", ())),
        work_from(said.get("work", ())),
    )


def _reference(facts: Mapping[str, Any]) -> Reference:
    return Reference(
        facts["constant"],
        facts["weak"],
        facts["random"],
        tuple(facts["modifies"]),
        facts["aliases"],
        work_from(facts["work"]),
        facts["ms"],
        tuple(facts["notes"]),
        facts["probes"],
        facts["card"],
    )


def _error(code: str, message: str, *helps: str, notes: tuple[str, ...] = ()) -> DiagnosticError:
    return DiagnosticError(Diagnostic(code, message, notes=notes, helps=helps))
