"""One audit from beginning to end. What decides is made here or in the reference's process."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from mucc.agent.audit.cases import AUDITS
from mucc.agent.audit.confirming import NAME, confirmed, needs_another
from mucc.agent.audit.detectors import findings
from mucc.agent.audit.findings import Finding, note, unsure
from mucc.agent.audit.imports import SolCall
from mucc.agent.audit.observations import (
    Bound,
    Call,
    Observations,
    Reference,
    Work,
    call_from,
    work_from,
)
from mucc.agent.audit.options import Options
from mucc.agent.audit.runs import Run, TooBusy
from mucc.agent.audit.shapes import with_other_shapes
from mucc.agent.audit.shares import kernels, own_share
from mucc.agent.audit.solutions import Solution, open_solution
from mucc.agent.audit.trial import FEWEST, Trial
from mucc.agent.audit.verdict import Failure, Verdict
from mucc.agent.isolation.zygote import Zygote
from mucc.api import files, processes
from mucc.api.importer import Request, parse_problem
from mucc.api.sandbox import Isolation

PRELOADED = ("mucc.agent.audit.candidate", "mucc.agent.audit.judge", "torch._dynamo")
"""What the processes of audits need: modules of ours, torch, and what its profiler loads at its first use."""

CHECKING = 2.0
"""Seconds in which results of timed calls are compared; half of them are in any case, drawn at random."""


class Known(NamedTuple):
    """What a reference is like whatever the candidate: whether it draws random numbers, its operations, its
    time in ms, and the inputs that are the same for all seeds."""

    random: bool
    work: tuple[Work, ...]
    ms: float | None
    fixed: tuple[int, ...] = ()


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
    audits are forked, and of a problem its bound, and what its reference is like whatever the solution.
    `isolation` is that of the processes; a zygote that is given has its own.
    """

    def __init__(self, zygote: Zygote | None = None, isolation: Isolation = Isolation.BEST):
        self.zygote = zygote or Zygote(PRELOADED, isolation=isolation)
        self._owned = zygote is None
        self._known: dict[tuple[str, ...], Known] = {}
        self.bounds: dict[tuple[str, ...], tuple[Bound | None, str]] = {}
        """Bounds by problem, card and precision."""
        self.smallest: dict[str, float] = {}
        """What the smallest of kernels takes in us, by cards."""

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
        """Judge a solution that was opened already, of a problem whose file has this text.

        What would reject it has to be seen twice: in two calls of one audit, or in a second audit.
        """
        options = options or Options()
        request = Request.of(problem, text, name="problem")
        verdict = self._once(request, solution, options)
        if needs_another(verdict):
            again = replace(options, seed=None if options.seed is None else options.seed + 1)
            verdict = confirmed(verdict, self._once(request, solution, again))
        if not options.shapes or not verdict.accepted:
            return verdict
        quick = replace(options, device=verdict.device, bound=False, known=None, runs=FEWEST)

        def judge(smaller: str) -> Verdict:
            return self._once(replace(request, text=smaller), solution, quick)

        return with_other_shapes(verdict, text, judge)

    def _once(self, request: Request, solution: Solution, options: Options) -> Verdict:
        with processes.temporary_folder(tempfile.gettempdir()) as folder:
            return _Audit(self, request, solution, options, folder).verdict()

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
        self.request, self.solution, self.options = request, solution, options
        self.seed = secrets.randbelow(AUDITS) if options.seed is None else options.seed
        self.trial = Trial(auditor.zygote, request, solution, options, folder, self.seed, auditor.smallest)
        self.seconds = self.trial.seconds

    def verdict(self) -> Verdict:
        try:
            return self._verdict()
        except TooBusy as busy:
            return self._unsure(self._base(""), str(busy))
        finally:
            self.trial.close()

    def _verdict(self) -> Verdict:
        run = self.trial.run()
        base, failed = self._base(run.card), run.failed
        if failed is not None and failed.cause == "busy":
            return self._unsure(base, failed.message)
        if failed is not None:
            failure = Failure(failed.message, failed.printed, failed.cause)
            return replace(base, failure=failure, seconds=self.seconds)
        sol = self._sol(run)
        try:
            with self.trial.phase("reference"):
                calls, timed, reference = self._compared(run)
            with self.trial.phase("bound"):
                bound, why = self._bound(sol, run)
        finally:
            if sol:
                sol.close()
        return self._judged(base, run, calls, timed, reference, bound, why)

    def _base(self, card: str) -> Verdict:
        """Return a verdict of nothing seen yet."""
        return Verdict(
            self.request.shown,
            self.solution.shown,
            self.trial.device,
            card,
            self.options.precision,
            self.seed,
            isolation=self.auditor.zygote.isolation.value,
            layers=tuple(layer.value for layer in self.auditor.zygote.layers()),
        )

    def _unsure(self, base: Verdict, why: str) -> Verdict:
        """Return the verdict of an audit that other work has ended."""
        said = f"{why}; audit again when the machine does less"
        return replace(base, findings=[unsure(NAME, said)], seconds=self.seconds)

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
            self.trial.device,
            self.options.precision,
            self.solution.tree,
            calls,
            timed,
            run.timing,
            reference,
            bound,
            run.signs.get("changed", ()),
            run.signs.get("seen", ()),
            run.libraries,
            run.looks,
            run.operations,
        )
        found: list[Finding] = [*findings(seen), *([note("sol_ceiling", f"no bound: {why}")] if why else [])]
        return replace(
            base,
            findings=found,
            calls=[*calls, *timed],
            time_ms=run.timing.ms,
            interval_ms=run.timing.interval,
            wall_ms=run.timing.wall_ms,
            reference_ms=reference.ms,
            bound=bound,
            own_share=own_share(seen),
            kernels=kernels(seen),
            seconds=self.seconds,
        )

    # The reference

    def _compared(self, run: Run) -> tuple[list[Call], list[Call], Reference]:
        """Compare everything, and say what the reference is like. Raises DiagnosticError."""
        key = (self.request.text, self.trial.device, run.card, self.options.precision)
        known = self.auditor.known(*key)
        calls, timed = self._calls(run)
        facts = self.trial.facts(known is not None)
        if known is None:
            work, ms = work_from(facts["work"]), self.trial.reference_ms()
            known = Known(facts["random"], work, ms, tuple(facts["fixed"]))
            self.auditor.keep(known, *key)
        return calls, timed, _reference(facts, known)

    def _calls(self, run: Run) -> tuple[list[Call], list[Call]]:
        """Compare results in the order of the calls; of timed ones all, or half and more as time permits, and
        those that make the time what it is."""
        calls, timed = list[Call](), list[Call]()
        numbers = [n for n, e in enumerate(run.made) if e.said is None]
        sure = set(self.trial.rng.sample(numbers, (len(numbers) + 1) // 2))
        spent = 0.0
        for n, (case, said) in enumerate(run.made):
            if said is not None:
                calls.append(call_from(case, said, self.trial.comparison(n)))
            elif n in sure or case.probe or case.name in run.decisive or spent < CHECKING:
                started = time.monotonic()
                timed.append(Call(case, self.trial.comparison(n)))
                spent += time.monotonic() - started
        return calls, timed

    # The bound

    def _sol(self, run: Run) -> SolCall | None:
        card = self.options.card or run.card
        if not self.options.bound or self.options.known is not None or not card:
            return None
        if self._bound_of(run) in self.auditor.bounds:
            return None
        return SolCall(self.auditor.zygote, self.request, card)

    def _bound(self, sol: SolCall | None, run: Run) -> tuple[Bound | None, str]:
        if self.options.known is not None:
            return replace(self.options.known, note="as given"), ""
        key = self._bound_of(run)
        if sol:
            self.auditor.bounds[key] = sol.bound(self.options.precision)
        return self.auditor.bounds.get(key, (None, "")) if self.options.bound else (None, "")

    def _bound_of(self, run: Run) -> tuple[str, ...]:
        """Return what a bound depends on."""
        return self.request.text, self.options.card or run.card, self.options.precision


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
        facts["rounded"],
        facts["absent"],
        tuple(facts["roughest"]),
        known.fixed,
        facts["spread"],
    )
