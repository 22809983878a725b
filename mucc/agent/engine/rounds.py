"""Execute the step `Pursue`, which spends attempts, in rounds.

In a round the proposer writes programs for each hypothesis that still has attempts, and all programs of the
round are evaluated together. The store gets each answer at once, with a note on the hypotheses that were
implemented, so that a run which was killed goes on with the rest of the round.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from mucc.agent.budget.stopping import best_and_waiting, expected_gain
from mucc.agent.core.attempts import Attempt, Candidate, Outcome, Status
from mucc.agent.core.proposer import Call, ProposerFailed
from mucc.agent.core.strategy import Pursue
from mucc.agent.core.tasks import Task
from mucc.agent.engine.clock import AGENT, MODEL, WAIT, Clock
from mucc.agent.engine.context import RunContext
from mucc.agent.engine.history import History
from mucc.agent.engine.limits import reason_to_stop, room, times_of


@dataclass
class Round:
    """The current round of a step: the number of its first attempt, the hypotheses that were implemented in
    it (`asked`), and those without further programs (`ended`)."""

    first: int
    asked: list[int] = field(default_factory=list[int])
    ended: list[int] = field(default_factory=list[int])


class PursueStep:
    """Executes one step `Pursue` of a task."""

    def __init__(
        self, context: RunContext, task: Task, history: History, clock: Clock, index: int, step: Pursue
    ):
        self.context, self.task, self.history, self.clock = context, task, history, clock
        self.index, self.step = index, step
        self.store, self.key = context.store, task.key

    def run(self) -> list[Attempt]:
        """Execute the step, and return all of its attempts. Raises Interrupted, ProposerFailed,
        DiagnosticError."""
        note = self.store.note(Round, self.key, self.index)
        current = Round(self._next()) if note is None else note
        while True:
            begun = bool(current.asked)
            live = self._live(current)
            if begun and not [h for h in live if h not in current.asked] and not self._pending():
                current = Round(self._next(), ended=current.ended)
                continue
            if not live or (not begun and self._stop()):
                return self._attempts()
            if not self._round(current, live):
                return self._attempts()

    def _round(self, current: Round, live: Sequence[int]) -> bool:
        """Execute or finish one round; False where the shared budget is spent."""
        finished = self.store.attempts(self.key)
        waiting = self._pending()
        wanted = room(self.context.options.budget, self.task, finished) - len(waiting)
        wanted = max(min(wanted, len(live) * self.step.attempts), 0)
        best, since = best_and_waiting(times_of(finished))
        gain = expected_gain(best, self.task.bound_ms, since)
        with self.clock.waiting(WAIT):
            granted = self.context.turns.enter(self.key, gain, wanted)
        spent = 0
        try:
            if granted == 0 and not waiting:
                return False
            self._ask(current, live, granted + len(waiting))
            spent = self._evaluate() - len(waiting)
        finally:
            self.context.turns.leave(self.key, max(granted - spent, 0))
        return True

    # Programs

    def _ask(self, current: Round, live: Sequence[int], most: int) -> None:
        """Have the proposer implement each hypothesis that has no programs in the round yet."""
        view = self.history.up_to(current.first)
        hypotheses = dict(self.store.hypotheses(self.key))
        for place, number in enumerate(live):
            if number in current.asked:
                continue
            self.context.check()
            earlier = [a for a in self._attempts(current.first) if a.candidate.hypothesis == number]
            left = most - len(self._pending())
            share = -(-left // (len(live) - place))
            count = min(self.step.attempts - len(earlier), share)
            current.asked.append(number)
            if count <= 0:
                continue
            self.context.progress.task(self.task, "implement", hypotheses[number].title)
            calls: Sequence[Call] = ()
            try:
                with self.clock.waiting(MODEL if self.context.proposer.name != "offline" else AGENT):
                    reply = self.context.proposer.implement(view, number, hypotheses[number], earlier, count)
                candidates, calls = list(reply.value)[:count], reply.calls
            except ProposerFailed as failed:
                self.store.add_calls(self.key, self.index, failed.calls)
                self.context.progress.called(self.key, failed.calls)
                raise
            self.context.check()
            if not candidates:
                current.ended.append(number)
            made = [self._completed(c, number, hypotheses[number].parent) for c in candidates]
            self.store.add_attempts(self.key, self.index, made, calls, current, together=current.first)
            if calls:
                self.context.progress.called(self.key, calls)

    @staticmethod
    def _completed(candidate: Candidate, hypothesis: int, parent: int) -> Candidate:
        """Return the candidate with the hypothesis that it tests, whatever the proposer wrote there."""
        origin = parent if candidate.parent is None else candidate.parent
        return Candidate(candidate.program, candidate.change, origin, hypothesis)

    # Outcomes

    def _evaluate(self) -> int:
        """Evaluate all programs of the step without an outcome; return the number of spent attempts."""
        waiting = self._pending()
        known = {_canonical(a.candidate.program): a.number for a in self.store.attempts(self.key) if a.spent}
        new: list[tuple[int, Candidate]] = []
        for number, candidate in waiting:
            text = _canonical(candidate.program)
            if text in known:
                same = Outcome(Status.REPEATED, f"the same program as attempt {known[text]}")
                finish(self.context, self.task, number, candidate, same)
                continue
            known[text] = number
            new.append((number, candidate))
        evaluate(self.context, self.task, self.clock, new)
        return len(new)

    # The state of the step

    def _next(self) -> int:
        return max(self.store.steps_of_attempts(self.key), default=-1) + 1

    def _pending(self) -> list[tuple[int, Candidate]]:
        return [(n, c) for n, step, c in self.store.pending(self.key) if step == self.index]

    def _attempts(self, before: int | None = None) -> list[Attempt]:
        """Return the finished attempts of the step."""
        steps = self.store.steps_of_attempts(self.key)
        own = [a for a in self.store.attempts(self.key) if steps[a.number] == self.index]
        return own if before is None else [a for a in own if a.number < before]

    def _live(self, current: Round) -> list[int]:
        """Return the hypotheses with attempts left at the begin of the round, except ended ones."""
        made = [a.candidate.hypothesis for a in self._attempts(current.first)]
        over = {h for h in current.ended if h not in current.asked}
        return [h for h in self.step.hypotheses if h not in over and made.count(h) < self.step.attempts]

    def _stop(self) -> bool:
        """Whether a stop rule holds."""
        attempts, calls = self.store.attempts(self.key), self.store.calls(self.key)
        budget = self.context.options.budget
        return bool(reason_to_stop(budget, self.task, attempts, calls, self.clock.total()))


def evaluate(
    context: RunContext, task: Task, clock: Clock, numbered: Sequence[tuple[int, Candidate]]
) -> None:
    """Evaluate candidates together, and store each outcome as it comes."""
    if not numbered:
        return
    context.check()
    best_ms = min((a.ms for a in context.store.attempts(task.key) if a.ms is not None), default=None)
    for number, candidate in numbered:
        context.progress.started(task.key, number, candidate)

    def watch(place: int, stage: str) -> None:
        context.progress.stage(task.key, numbered[place][0], stage)

    outcomes = context.evaluator.evaluate(task, [c for _, c in numbered], best_ms, watch)
    left = len(numbered)
    while True:
        with clock.waiting(WAIT) as stages:
            found = next(outcomes, None)
            if found is not None:
                stages.update(found[1].seconds)
        context.check()
        if found is None:
            break
        left -= 1
        number, candidate = numbered[found[0]]
        finish(context, task, number, candidate, found[1])
    if left:
        raise RuntimeError(f"{left} of {len(numbered)} candidates have no outcome")


def finish(context: RunContext, task: Task, number: int, candidate: Candidate, outcome: Outcome) -> None:
    """Store the outcome of an attempt, and report it."""
    context.store.finish_attempt(task.key, number, outcome)
    best_ms = min((a.ms for a in context.store.attempts(task.key) if a.ms is not None), default=None)
    context.progress.finished(task.key, Attempt(number, candidate, outcome), best_ms)


def _canonical(program: str) -> str:
    """Return a program without comments, and with single spaces."""
    return " ".join(re.sub(r"//[^\n]*", "", program).split())
