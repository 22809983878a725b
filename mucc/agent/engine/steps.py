"""Execute the steps of a strategy for one task; each result is stored before the strategy gets it."""

from __future__ import annotations

import time
from typing import Any

from mucc.agent.core.analysis import Analysis, Limit
from mucc.agent.core.attempts import Attempt
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.proposer import ProposerFailed
from mucc.agent.core.strategy import Analyze, Nominate, Pursue, Record, Step
from mucc.agent.core.tasks import Task
from mucc.agent.engine import documents
from mucc.agent.engine.clock import AGENT, GPU, MODEL, Clock
from mucc.agent.engine.context import RunContext
from mucc.agent.engine.history import History
from mucc.agent.engine.limits import reason_to_stop
from mucc.agent.engine.rounds import PursueStep
from mucc.agent.store import StepRecord
from mucc.api.diagnostics import Diagnostic, DiagnosticError
from mucc.api.json_types import Json, from_json, to_json


class StepExecutor:
    """Executes the steps of one task. They are numbered from 1: the measurement of `task_run` is step 0."""

    def __init__(self, context: RunContext, task: Task, clock: Clock):
        self.context, self.task, self.clock = context, task, clock
        self.store, self.key = context.store, task.key
        self.history = History(context.store, task, context.options.seed)

    def search(self) -> str:
        """Run the strategy, with stored results for finished steps; return the reason why it ended.

        Raises Interrupted, ProposerFailed, and DiagnosticError: MU7208 where stored steps differ from those
        that the strategy yields, and for faults of the machine.
        """
        known = {record.index: record for record in self.store.steps(self.key)}
        self.history.index = 1
        generator = self.context.strategy.steps(self.history)
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
                if not self._is_begun(index, step) and (why := self._stop()):
                    generator.close()
                    return why
                try:
                    answer = self._execute(index, step)
                except ProposerFailed as failed:
                    if self.context.proposer.name != "offline":
                        raise
                    return f"the proposer has failed: {failed.code}: {failed.message}"
            self.history.index = index + 1

    def _is_begun(self, index: int, step: Step) -> bool:
        """Whether to finish a step although a stop rule holds: it was begun before, or only records
        others."""
        noted = self.store.has_note(self.key, index)
        return isinstance(step, Record) or noted or bool(self.store.hypotheses(self.key, index))

    def _stop(self) -> str:
        self.context.check()
        if self.context.turns.spent():
            return "the shared budget of attempts is spent"
        attempts, calls = self.store.attempts(self.key), self.store.calls(self.key)
        return reason_to_stop(self.context.options.budget, self.task, attempts, calls, self.clock.total())

    def _recall(self, record: StepRecord, step: Step) -> Any:
        """Return the stored result of a finished step."""
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

    def _execute(self, index: int, step: Step) -> Any:
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
                documents.write(self.context, self.key, index, step.phase, step.markdown, step.data)
        record = StepRecord(
            index, type(step).__name__, _request(step), kept, started, round(time.time() - started, 4)
        )
        self.store.finish_step(self.key, record)
        return answer

    def _analyze(self, index: int, step: Analyze) -> Analysis:
        self.context.progress.task(self.task, "analyze", f"attempt {step.attempt}")
        attempt = self._attempt(step.attempt)
        with self.clock.waiting(GPU):
            try:
                library = self.context.evaluator.library(self.task, attempt.candidate)
                found = self.context.analyze(self.task, attempt, library)
            except DiagnosticError as error:
                self.context.check()
                found = Analysis(Limit.MIXED, self._gap(attempt), missing=[str(error)])
        self.context.check()
        documents.write(
            self.context, self.key, index, "Analyze", *documents.analyze(self.task, step.attempt, found)
        )
        return found

    def _nominate(self, index: int, step: Nominate) -> list[tuple[int, Hypothesis]]:
        self.context.progress.task(self.task, "nominate", f"from attempt {step.parent}")
        found = self.store.hypotheses(self.key, index)
        if not found:
            proposer = self.context.proposer
            try:
                with self.clock.waiting(MODEL if proposer.name != "offline" else AGENT):
                    reply = proposer.nominate(self.history.view(), step.count, self._attempt(step.parent))
            except ProposerFailed as failed:
                self.store.add_calls(self.key, index, failed.calls)
                self.context.progress.called(self.key, failed.calls)
                raise
            self.context.check()
            named = list(reply.value)[: step.count]
            numbers = self.store.add_hypotheses(self.key, index, named, reply.calls)
            found = list(zip(numbers, named, strict=True))
            if reply.calls:
                self.context.progress.called(self.key, reply.calls)
        documents.write(
            self.context, self.key, index, "Nominate", *documents.nominate(self.task, step.parent, found)
        )
        return found

    def _pursue(self, index: int, step: Pursue) -> list[Attempt]:
        found = PursueStep(self.context, self.task, self.history, self.clock, index, step).run()
        known = dict(self.store.hypotheses(self.key))
        own = {number: known[number] for number in step.hypotheses}
        documents.write(
            self.context, self.key, index, "Implement", *documents.implement(self.task, own, found)
        )
        return found

    def _attempt(self, number: int) -> Attempt:
        return next(a for a in self.store.attempts(self.key) if a.number == number)

    def _gap(self, attempt: Attempt) -> float | None:
        return attempt.ms / self.task.bound_ms if attempt.ms and self.task.bound_ms else None


def _request(step: Step) -> Json:
    """Return the fields of a step, as the store has them."""
    asked = to_json(step)
    if isinstance(step, Record):
        return {"phase": step.phase}
    return asked
