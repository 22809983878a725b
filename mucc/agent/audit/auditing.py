"""One audit from beginning to end. What decides is made here or in the reference's process."""

from __future__ import annotations

import math
import os
import random
import secrets
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, NamedTuple

from mucc.agent.audit.cases import SEEDS, SLOTS, WARM, Case, plan, timed_case
from mucc.agent.audit.detectors import findings
from mucc.agent.audit.detectors.late_work import looked_for
from mucc.agent.audit.findings import Finding, note
from mucc.agent.audit.imports import SolCall
from mucc.agent.audit.observations import (
    Bound,
    Call,
    Comparison,
    Observations,
    Reference,
    Timing,
    Work,
    call_from,
    work_from,
)
from mucc.agent.audit.options import Options
from mucc.agent.audit.shapes import with_other_shapes
from mucc.agent.audit.shares import kernels, own_share
from mucc.agent.audit.solutions import Solution, open_solution, sources_beside
from mucc.agent.audit.verdict import Failure, Verdict
from mucc.agent.isolation.problems import problem_error
from mucc.agent.isolation.process import TORCH, Child, ChildFailed
from mucc.agent.isolation.server import SHARED
from mucc.agent.isolation.zygote import Zygote
from mucc.api import files, processes
from mucc.api.diagnostics import Diagnostic, DiagnosticError
from mucc.api.importer import Request, error_from_json, parse_problem
from mucc.api.json_types import Json
from mucc.api.machine import exclusive_gpu, shared_gpu
from mucc.api.sandbox import Isolation

PRELOADED = ("mucc.agent.audit.candidate", "mucc.agent.audit.referee", "torch._dynamo")
"""What the processes of audits need: modules of ours, torch, and what its profiler loads at its first use."""

BUDGET = 4.0
"""Seconds that timed calls may take together."""

FEWEST = 5
"""Timed calls that there are at the least."""

TRIES = 3
"""Times that a measurement which may reject is made; the one that says the least counts."""

FEW = 3
"""Calls of the short series that the long one is held against."""


class Entry(NamedTuple):
    """A case, what the candidate's process said of it, and where its results lie. `replay` has the
    series of calls before that of a timed one, and the cases of their inputs."""

    case: Case
    said: Json
    folder: str
    replay: Json | None = None


@dataclass
class Run:
    """What came out of the candidate's process, to be compared when it has ended."""

    card: str = ""
    results: int | None = None
    """A descriptor of the folder of results, where that was in memory of the candidate's process."""
    answers: list[Entry] = field(default_factory=list["Entry"])
    timed: list[Entry] = field(default_factory=list["Entry"])
    timing: Timing = field(default_factory=Timing)
    signs: Mapping[str, Any] = field(default_factory=Json)
    failure: Failure | None = None


@dataclass(frozen=True)
class Known:
    """What a reference is like whatever the candidate: whether it draws random numbers, its operations, and
    its time in ms."""

    random: bool
    work: tuple[Work, ...]
    ms: float | None


class CandidateFailed(Exception):
    """The candidate raised: an outcome, not an error."""


def audit(problem: str, solution: str, options: Options | None = None) -> Verdict:
    """Judge a solution of a problem. Whatever the solution does is part of the verdict.

    Raises DiagnosticError where nothing can be judged: MU5010 and MU5011 for files, MU7001 without torch,
    MU7010 to MU7015 for the problem file, MU7101 without a GPU, MU7110 and MU7111 for a library that does
    not fit the problem.
    """
    with Auditor(isolation=(options or Options()).isolation) as auditor:
        return auditor.audit(problem, solution, options)


class Auditor:
    """Judges many solutions, one after another or side by side.

    All that is kept from one audit to the next are a process that has loaded torch, from which those of
    audits are forked, and what the reference of a problem is like whatever the solution. `isolation` is that
    of the processes; a zygote that is given has its own.
    """

    def __init__(self, zygote: Zygote | None = None, isolation: Isolation = Isolation.BEST):
        self.zygote = zygote or Zygote(PRELOADED, isolation=isolation)
        self._owned = zygote is None
        self._known: dict[tuple[str, ...], Known] = {}

    def audit(self, problem: str, solution: str, options: Options | None = None) -> Verdict:
        """Judge a solution of a problem; see `audit`."""
        text = files.read_source(problem).text
        parse_problem(problem, text)  # before anything is built
        self.zygote.start()
        with processes.temporary_folder(tempfile.gettempdir()) as folder:
            device = (options or Options()).device
            opened = open_solution(solution, problem, folder, self.zygote, device)
            return self.judge(problem, text, opened, options)

    def judge(self, problem: str, text: str, solution: Solution, options: Options | None = None) -> Verdict:
        """Judge a solution that was opened already, of a problem whose file has this text."""
        options = options or Options()
        request = Request.of(problem, text, name="problem")
        with processes.temporary_folder(tempfile.gettempdir()) as folder:
            verdict = _Audit(self, request, solution, options, folder).verdict()
            if not options.shapes or not verdict.accepted:
                return verdict
            quick = replace(options, device=verdict.device, bound=False, bound_us=None, runs=FEWEST)

            def judge(smaller: str) -> Verdict:
                with processes.temporary_folder(folder) as inner:
                    return _Audit(self, replace(request, text=smaller), solution, quick, inner).verdict()

            return with_other_shapes(verdict, text, judge)

    def known(self, *key: str) -> Known | None:
        """Return what earlier audits found about the reference of a problem."""
        return self._known.get(key)

    def keep(self, known: Known, *key: str) -> None:
        """Keep that for later ones."""
        self._known[key] = known

    def close(self) -> None:
        """End all processes."""
        if self._owned:
            self.zygote.close()

    def __enter__(self) -> Auditor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Audit:
    def __init__(self, auditor: Auditor, request: Request, solution: Solution, options: Options, folder: str):
        self.auditor = auditor
        self.request, self.solution, self.options, self.folder = request, solution, options, folder
        self.seed = secrets.randbelow(SEEDS) if options.seed is None else options.seed
        self.rng = random.Random(self.seed)
        self.weights = self.rng.randrange(SEEDS)
        self.device = options.device
        self.seconds: dict[str, float] = {}
        self.process = "candidate"
        self.drifts = [0] * SLOTS
        self.made: list[tuple[str, int]] = []

    def verdict(self) -> Verdict:
        run = Run()
        try:
            return self._verdict(run)
        finally:
            if run.results is not None:
                os.close(run.results)

    def _verdict(self, run: Run) -> Verdict:
        started = time.monotonic()
        self._candidate(run)
        self.seconds["candidate"] = time.monotonic() - started
        base = Verdict(
            self.request.shown,
            self.solution.shown,
            self.device,
            run.card,
            self.options.precision,
            self.seed,
            failure=run.failure,
            isolation=self.auditor.zygote.isolation.value,
            layers=tuple(layer.value for layer in self.auditor.zygote.layers()),
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

    def _candidate(self, run: Run) -> None:
        """Call the candidate in a process of its own, and keep what came."""
        with self._phase("start"):
            started = self._child("candidate", readable=sources_beside(self.solution.path))
        with started as child:
            run.results = child.detach_folder()
            try:
                first, *others = plan(self.rng)
                # A solution may compile for long, and the GPU is not to wait for that.
                with self._turn(child, shared_gpu if self.solution.is_library else nullcontext):
                    with self._phase("open"):
                        self._open(child, run)
                    with self._phase("load"):
                        self._ask(child, do="load", solution=self.solution.path, seed=self.weights)
                    with self._phase("first"):
                        self._answer(child, run, first)
                with self._turn(child, shared_gpu), self._phase("cases"):
                    for case in others:
                        self._answer(child, run, case)
                with self._turn(child, exclusive_gpu), self._phase("time"):
                    self._time(child, run)
                with self._phase("signs"):
                    run.signs = self._ask(child, do="signs")
            except (TypeError, ValueError, KeyError, AttributeError) as error:
                run.failure = Failure(f"its process gave an answer that is none: {error!r}", child.printed())
            except (ChildFailed, CandidateFailed) as failed:
                printed = failed.printed if isinstance(failed, ChildFailed) else child.printed()
                what = f"its process {failed}" if isinstance(failed, ChildFailed) else str(failed)
                run.failure = Failure(what, printed)

    def _answer(self, child: Child, run: Run, case: Case) -> None:
        said = self._ask(child, do="call", case=case.to_json())
        call_from(case, said, Comparison(False))
        run.answers.append(Entry(case, said, self._give(child, case)))

    @contextmanager
    def _turn(self, child: Child, turn: Callable[[], AbstractContextManager[None]]) -> Generator[None]:
        """While it is our turn on the GPU; to wait for that costs the child no time."""
        if self.device == "cpu":
            yield
            return
        with child.turn(turn) as waited:
            self._spent("wait", waited)
            yield

    @contextmanager
    def _phase(self, name: str) -> Generator[None]:
        """Time a phase of the audit for the verdict."""
        started = time.monotonic()
        try:
            yield
        finally:
            self._spent(name, time.monotonic() - started)

    def _spent(self, name: str, seconds: float) -> None:
        key = f"{self.process}.{name}"
        self.seconds[key] = self.seconds.get(key, 0.0) + seconds

    def _child(self, module: str, readable: Sequence[str] = (), shared: int | None = None) -> Child:
        memory = (self.options.memory_limit << 20) + TORCH["cuda" if self.device != "cpu" else "cpu"]
        return Child(
            self.auditor.zygote,
            f"mucc.agent.audit.{module}",
            self.folder,
            self.options.time_limit,
            memory,
            readable=readable,
            shared=shared,
        )

    def _problem(self) -> Json:
        return {
            "problem": self.request.to_json(),
            "device": self.device,
            "memory": self.options.memory_limit << 20,
            "seed": self.weights,
            "precision": self.options.precision,
            "draws_there": self.solution.is_library,
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
        return problem_error(self.request.shown, failed, limits=True)

    def _ask(self, child: Child, **request: Any) -> Json:
        return self._heard(child.ask(**request))

    @staticmethod
    def _heard(answer: Json) -> Json:
        if "errors" in answer:
            raise error_from_json(answer["errors"])
        if "failed" in answer:
            raise CandidateFailed(f"the solution raised {answer['failed']}")
        return answer

    def _give(self, child: Child, case: Case) -> str:
        """Have the last results written; where, within the folder of results."""
        name = f"results-{case.name.replace(' ', '-')}"
        self._ask(child, do="give", folder=os.path.join(self.folder, name), sample=case.sample)
        return name

    def _time(self, child: Child, run: Run) -> None:
        """Time calls; the candidate's process does not know how many come, and which are compared.

        What it costs to change inputs between calls is taken from the time by our clock.
        """
        cases = [replace(timed_case(self.rng), slot=slot) for slot in range(SLOTS)]
        self._ask(child, do="ready", cases=[c.to_json() for c in cases])
        self.drifts, self.made = [0] * SLOTS, [("warm", WARM * SLOTS)]
        short, _ = self._series(child, "timed", FEW)
        each = max(median(t[0] for t in short), 1e-3) / 1e3
        runs = min(max(int(BUDGET / 4 / each), FEWEST), self.options.runs)
        times, _ = self._series(child, "timed", runs + self.rng.randrange(FEW))
        run.timed.append(self._last(child, run, cases, len(times), "timed"))
        whole = looked_for(lambda: self._whole(child))
        more = FEW + runs + self.rng.randrange(FEW)
        spent: dict[str, float] = {}
        for kind in ["drift", "bare"] * TRIES:
            _, few = self._series(child, kind, FEW)
            _, many = self._series(child, kind, more)
            spent[kind] = min(spent.get(kind, math.inf), max(many - few, 0.0) / (more - FEW))
        run.timed.append(self._last(child, run, cases, more, "timed back to back"))
        run.timing = Timing(
            tuple(t[0] for t in times),
            tuple(whole),
            max(spent["bare"] - spent["drift"], 0.0) * 1e3,
        )

    def _whole(self, child: Child) -> tuple[float, float]:
        """Return the median call of a series in ms: by events, and until the device was idle."""
        times, _ = self._series(child, "whole", FEWEST)
        return median(t[0] for t in times), median(t[1] for t in times)

    def _series(self, child: Child, kind: str, count: int) -> tuple[list[Any], float]:
        """Several calls, one after another: the times told, and the seconds by our clock.

        On a CPU that is shared, time of its processors says more than time that has passed.
        """
        started, used = time.monotonic(), child.processor_seconds()
        child.tell(*[kind] * count, {"do": "over"})
        answer = self._heard(child.answer())
        passed = time.monotonic() - started
        self.made.append((kind, count))
        for slot in range(SLOTS):
            self.drifts[slot] += len(range(slot, count, SLOTS))
        if self.device == "cpu":
            passed = min(passed, child.processor_seconds() - used)
        return answer["times"], passed

    def _last(self, child: Child, run: Run, cases: Sequence[Case], count: int, name: str) -> Entry:
        """Return the result of the last call of a series, with the case that it belongs to."""
        slot = (count - 1) % SLOTS
        case = replace(cases[slot], name=name, drift=self.drifts[slot])
        outputs = run.answers[0].said.get("outputs", [])
        replay = {"cases": [c.to_json() for c in cases], "made": [*self.made]}
        return Entry(case, {"outputs": outputs}, self._give(child, case), replay)

    # The reference

    def _referee(self, run: Run) -> tuple[list[Call], list[Call], Reference]:
        """Compare everything, and say what the reference is like. Raises DiagnosticError."""
        key = (self.request.text, self.device, run.card, self.options.precision)
        known = self.auditor.known(*key)
        self.process = "reference"
        with self._phase("start"):
            started = self._child("referee", shared=run.results)
        folder = self.folder if run.results is None else f"/proc/self/fd/{SHARED}"
        with started as child:
            try:
                with self._turn(child, shared_gpu):
                    with self._phase("load"):
                        self._ask(child, do="load", **self._problem())
                    with self._phase("judge"):
                        calls = [self._call(child, entry, folder) for entry in run.answers]
                        timed = [self._call(child, entry, folder) for entry in run.timed]
                    with self._phase("facts"):
                        facts = self._ask(child, do="facts", known=known is not None)
                if known is None:
                    with self._turn(child, exclusive_gpu), self._phase("time"):
                        ms = self._ask(child, do="time", runs=self.options.runs)["ms"]
                    known = Known(facts["random"], work_from(facts["work"]), ms)
                    self.auditor.keep(known, *key)
            except ChildFailed as failed:
                raise self._problem_error(failed) from None
        return calls, timed, _reference(facts, known)

    def _call(self, child: Child, entry: Entry, folder: str) -> Call:
        case, said, name, replay = entry
        where = os.path.join(folder, name)
        asked: Json = {"case": case.to_json(), "folder": where, "outputs": said["outputs"]}
        found = self._ask(child, do="judge", replay=replay, **asked)
        return call_from(case, said, Comparison(**found))

    # The bound

    def _sol(self, run: Run) -> SolCall | None:
        card = self.options.card or run.card
        if not self.options.bound or self.options.bound_us is not None or not card:
            return None
        return SolCall(self.auditor.zygote, self.request, card)

    def _bound(self, sol: SolCall | None) -> tuple[Bound | None, str]:
        if self.options.bound_us is not None:
            return Bound(self.options.bound_us / 1e3, "as given", self.options.bound_whole), ""
        return sol.bound(self.options.precision) if sol else (None, "")


def _reference(facts: Mapping[str, Any], known: Known) -> Reference:
    return Reference(
        facts["constant"],
        facts["weak"],
        known.random,
        tuple(facts["modifies"]),
        facts["aliases"],
        known.work,
        known.ms,
        tuple(facts["notes"]),
        facts["probes"],
        facts["card"],
    )


def _error(code: str, message: str, *helps: str, notes: tuple[str, ...] = ()) -> DiagnosticError:
    return DiagnosticError(Diagnostic(code, message, notes=notes, helps=helps))
