"""Performs the steps of a strategy, and keeps what came of them before the strategy hears of it."""

from __future__ import annotations

import time
from typing import Any

from mucc.agent.core.analysis import Analysis, Limit
from mucc.agent.core.attempts import Attempt
from mucc.agent.core.codec import from_json, to_json
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.proposing import ProposerFailed
from mucc.agent.core.searching import Analyze, Nominate, Pursue, Record, Step
from mucc.agent.core.tasks import Task
from mucc.agent.engine import documents
from mucc.agent.engine.clock import AGENT, GPU, MODEL, Clock
from mucc.agent.engine.history import History
from mucc.agent.engine.limits import reason_to_stop
from mucc.agent.engine.parts import Parts
from mucc.agent.engine.pursuing import Pursuit
from mucc.agent.store import StepRecord
from mucc.api.diagnostics import Diagnostic, DiagnosticError


class Performer:
    """The search of one task: steps begin with number 1, since measuring is step 0."""

    def __init__(self, parts: Parts, task: Task, clock: Clock):
        self.parts, self.task, self.clock = parts, task, clock
        self.store, self.key = parts.store, task.key
        self.history = History(parts.store, task, parts.options.seed)

    def search(self) -> str:
        """Go on with the strategy from where it was; why it ended.

        Raises Interrupted, ProposerFailed, and DiagnosticError: MU7208 where the steps that are kept are not
        those that the strategy takes, and what the machine is to blame for.
        """
        known = {record.index: record for record in self.store.steps(self.key)}
        self.history.index = 1
        generator = self.parts.strategy.steps(self.history)
        answer: Any = None
        while True:
            try:
                step = generator.send(answer)
            except StopIteration:
                return "the search is complete"
            index = self.history.index
            if index in known:
                answer = self._recall(known[index], step)
            else:
                if not self._begun(index, step) and (why := self._stop()):
                    generator.close()
                    return why
                try:
                    answer = self._perform(index, step)
                except ProposerFailed as failed:
                    if self.parts.proposer.name != "offline":
                        raise
                    return f"the proposer has failed: {failed.code}: {failed.message}"
            self.history.index = index + 1

    def _begun(self, index: int, step: Step) -> bool:
        """Whether a step is finished in any case: it was begun before, or only says what came of others."""
        noted = self.store.note(self.key, index) is not None
        return isinstance(step, Record) or noted or bool(self.store.hypotheses(self.key, index))

    def _stop(self) -> str:
        self.parts.check()
        if self.parts.turns.spent():
            return "the shared budget of attempts is spent"
        attempts, calls = self.store.attempts(self.key), self.store.calls(self.key)
        return reason_to_stop(self.parts.options.budget, self.task, attempts, calls, self.clock.total())

    def _recall(self, record: StepRecord, step: Step) -> Any:
        """What came of a step that is finished."""
        if record.kind != type(step).__name__ or record.request != _request(step):
            raise DiagnosticError(
                Diagnostic(
                    "MU7208",
                    f"{self.key}: step {record.index} was {record.kind} {record.request}, and now would be "
                    f"{type(step).__name__} {_request(step)}",
                    helps=("go on with the mucc that began the run, or begin another one",),
                )
            )
        match step:
            case Analyze():
                return from_json(Analysis, record.result)
            case Nominate():
                found = dict(self.store.hypotheses(self.key, record.index))
                return [(number, found[number]) for number in record.result]
            case Pursue():
                attempts = {a.number: a for a in self.store.attempts(self.key)}
                return [attempts[number] for number in record.result]
            case Record():
                return None

    def _perform(self, index: int, step: Step) -> Any:
        started = time.time()
        answer: Any = None
        kept: Any = None
        match step:
            case Analyze():
                answer = self._analyze(index, step)
                kept = to_json(answer)
            case Nominate():
                answer = self._nominate(index, step)
                kept = [number for number, _ in answer]
            case Pursue():
                answer = self._pursue(index, step)
                kept = [attempt.number for attempt in answer]
            case Record():
                documents.leave(self.parts, self.key, index, step.phase, step.markdown, step.data)
        record = StepRecord(
            index, type(step).__name__, _request(step), kept, started, round(time.time() - started, 4)
        )
        self.store.finish_step(self.key, record)
        return answer

    def _analyze(self, index: int, step: Analyze) -> Analysis:
        self.parts.progress.task(self.task, "analyze", f"attempt {step.attempt}")
        attempt = self._attempt(step.attempt)
        with self.clock.waiting(GPU):
            try:
                library = self.parts.evaluator.library(self.task, attempt.candidate)
                found = self.parts.analyze(self.task, attempt, library)
            except DiagnosticError as error:
                self.parts.check()
                found = Analysis(Limit.MIXED, self._gap(attempt), missing=[str(error)])
        self.parts.check()
        documents.leave(
            self.parts, self.key, index, "Analyze", *documents.analyze(self.task, step.attempt, found)
        )
        return found

    def _nominate(self, index: int, step: Nominate) -> list[tuple[int, Hypothesis]]:
        self.parts.progress.task(self.task, "nominate", f"from attempt {step.parent}")
        found = self.store.hypotheses(self.key, index)
        if not found:
            proposer = self.parts.proposer
            try:
                with self.clock.waiting(MODEL if proposer.name != "offline" else AGENT):
                    reply = proposer.nominate(self.history.view(), step.count, self._attempt(step.parent))
            except ProposerFailed as failed:
                self.store.add_calls(self.key, index, failed.calls)
                self.parts.progress.called(self.key, failed.calls)
                raise
            self.parts.check()
            named = list(reply.value)[: step.count]
            numbers = self.store.add_hypotheses(self.key, index, named, reply.calls)
            found = list(zip(numbers, named, strict=True))
            if reply.calls:
                self.parts.progress.called(self.key, reply.calls)
        documents.leave(
            self.parts, self.key, index, "Nominate", *documents.nominate(self.task, step.parent, found)
        )
        return found

    def _pursue(self, index: int, step: Pursue) -> list[Attempt]:
        found = Pursuit(self.parts, self.task, self.history, self.clock, index, step).run()
        known = dict(self.store.hypotheses(self.key))
        own = {number: known[number] for number in step.hypotheses}
        documents.leave(self.parts, self.key, index, "Implement", *documents.implement(self.task, own, found))
        return found

    def _attempt(self, number: int) -> Attempt:
        return next(a for a in self.store.attempts(self.key) if a.number == number)

    def _gap(self, attempt: Attempt) -> float | None:
        return attempt.ms / self.task.bound_ms if attempt.ms and self.task.bound_ms else None


def _request(step: Step) -> dict[str, Any]:
    """What a step asks, as the store has it."""
    asked = to_json(step)
    if isinstance(step, Record):
        return {"phase": step.phase}
    return asked
