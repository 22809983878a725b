"""The step that spends attempts: hypotheses are implemented, repaired and evaluated, in rounds.

In a round each hypothesis that still has attempts is asked for programs, and all programs of the round are
evaluated together. The store has each answer as soon as it is there, with a note on who was asked in the
round, so that a run which was killed goes on with what is left of the round.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from mucc.agent.budget.stopping import best_and_waiting, expected_gain
from mucc.agent.core.attempts import Attempt, Candidate, Outcome, Status
from mucc.agent.core.codec import from_json, to_json
from mucc.agent.core.proposing import Call, ProposerFailed
from mucc.agent.core.searching import Pursue
from mucc.agent.core.tasks import Task
from mucc.agent.engine.clock import AGENT, MODEL, WAIT, Clock
from mucc.agent.engine.history import History
from mucc.agent.engine.limits import reason_to_stop, room, times_of
from mucc.agent.engine.parts import Parts


@dataclass
class Round:
    """The round that a step is in: the number of its first attempt, the hypotheses that were asked in it,
    and those that have ended for want of programs."""

    first: int
    asked: list[int] = field(default_factory=list[int])
    ended: list[int] = field(default_factory=list[int])


class Pursuit:
    """One step `Pursue` of a task."""

    def __init__(self, parts: Parts, task: Task, history: History, clock: Clock, index: int, step: Pursue):
        self.parts, self.task, self.history, self.clock = parts, task, history, clock
        self.index, self.step = index, step
        self.store, self.key = parts.store, task.key

    def run(self) -> list[Attempt]:
        """All attempts of the step. Raises Interrupted, ProposerFailed, and DiagnosticError."""
        note = self.store.note(self.key, self.index)
        current = Round(self._next()) if note is None else from_json(Round, note)
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
        """Do, or finish, one round; False where the shared budget has nothing left for it."""
        finished = self.store.attempts(self.key)
        waiting = self._pending()
        wanted = room(self.parts.options.budget, self.task, finished) - len(waiting)
        wanted = max(min(wanted, len(live) * self.step.attempts), 0)
        best, since = best_and_waiting(times_of(finished))
        gain = expected_gain(best, self.task.bound_ms, since)
        with self.clock.waiting(WAIT):
            granted = self.parts.turns.enter(self.key, gain, wanted)
        spent = 0
        try:
            if granted == 0 and not waiting:
                return False
            self._ask(current, live, granted + len(waiting))
            spent = self._evaluate() - len(waiting)
        finally:
            self.parts.turns.leave(self.key, max(granted - spent, 0))
        return True

    # Programs

    def _ask(self, current: Round, live: Sequence[int], most: int) -> None:
        """Have every hypothesis of the round that was not asked yet write programs."""
        view = self.history.up_to(current.first)
        hypotheses = dict(self.store.hypotheses(self.key))
        for place, number in enumerate(live):
            if number in current.asked:
                continue
            self.parts.check()
            earlier = [a for a in self._attempts(current.first) if a.candidate.hypothesis == number]
            left = most - len(self._pending())
            share = -(-left // (len(live) - place))
            count = min(self.step.attempts - len(earlier), share)
            current.asked.append(number)
            if count <= 0:
                continue
            self.parts.progress.task(self.task, "implement", hypotheses[number].title)
            calls: Sequence[Call] = ()
            try:
                with self.clock.waiting(MODEL if self.parts.proposer.name != "offline" else AGENT):
                    reply = self.parts.proposer.implement(view, number, hypotheses[number], earlier, count)
                candidates, calls = list(reply.value)[:count], reply.calls
            except ProposerFailed as failed:
                self.store.add_calls(self.key, self.index, failed.calls)
                self.parts.progress.called(self.key, failed.calls)
                raise
            self.parts.check()
            if not candidates:
                current.ended.append(number)
            made = [self._completed(c, number, hypotheses[number].parent) for c in candidates]
            note = to_json(current)
            self.store.add_attempts(self.key, self.index, made, calls, note, together=current.first)
            if calls:
                self.parts.progress.called(self.key, calls)

    @staticmethod
    def _completed(candidate: Candidate, hypothesis: int, parent: int) -> Candidate:
        """A candidate that says which hypothesis it tests, whatever the proposer put there."""
        origin = parent if candidate.parent is None else candidate.parent
        return Candidate(candidate.program, candidate.change, origin, hypothesis)

    # Outcomes

    def _evaluate(self) -> int:
        """Evaluate all programs of the step that have no outcome; how many took from the budget."""
        waiting = self._pending()
        known = {_canonical(a.candidate.program): a.number for a in self.store.attempts(self.key) if a.spent}
        new: list[tuple[int, Candidate]] = []
        for number, candidate in waiting:
            text = _canonical(candidate.program)
            if text in known:
                same = Outcome(Status.REPEATED, f"the same program as attempt {known[text]}")
                finish(self.parts, self.task, number, candidate, same)
                continue
            known[text] = number
            new.append((number, candidate))
        evaluate(self.parts, self.task, self.clock, new)
        return len(new)

    # The state of the step

    def _next(self) -> int:
        return max(self.store.steps_of_attempts(self.key), default=-1) + 1

    def _pending(self) -> list[tuple[int, Candidate]]:
        return [(n, c) for n, step, c in self.store.pending(self.key) if step == self.index]

    def _attempts(self, before: int | None = None) -> list[Attempt]:
        """The finished attempts of the step."""
        steps = self.store.steps_of_attempts(self.key)
        own = [a for a in self.store.attempts(self.key) if steps[a.number] == self.index]
        return own if before is None else [a for a in own if a.number < before]

    def _live(self, current: Round) -> list[int]:
        """The hypotheses that had attempts left when the round began, without those that ended before it."""
        made = [a.candidate.hypothesis for a in self._attempts(current.first)]
        over = {h for h in current.ended if h not in current.asked}
        return [h for h in self.step.hypotheses if h not in over and made.count(h) < self.step.attempts]

    def _stop(self) -> bool:
        """Whether a stop rule holds."""
        attempts, calls = self.store.attempts(self.key), self.store.calls(self.key)
        budget = self.parts.options.budget
        return bool(reason_to_stop(budget, self.task, attempts, calls, self.clock.total()))


def evaluate(parts: Parts, task: Task, clock: Clock, numbered: Sequence[tuple[int, Candidate]]) -> None:
    """Evaluate candidates together, and keep each outcome as it comes."""
    if not numbered:
        return
    parts.check()
    best_ms = min((a.ms for a in parts.store.attempts(task.key) if a.ms is not None), default=None)
    for number, candidate in numbered:
        parts.progress.started(task.key, number, candidate)

    def watch(place: int, stage: str) -> None:
        parts.progress.stage(task.key, numbered[place][0], stage)

    outcomes = parts.evaluator.evaluate(task, [c for _, c in numbered], best_ms, watch)
    left = len(numbered)
    while True:
        with clock.waiting(WAIT) as stages:
            found = next(outcomes, None)
            if found is not None:
                stages.update(found[1].seconds)
        parts.check()
        if found is None:
            break
        left -= 1
        number, candidate = numbered[found[0]]
        finish(parts, task, number, candidate, found[1])
    if left:
        raise RuntimeError(f"{left} of {len(numbered)} candidates have no outcome")


def finish(parts: Parts, task: Task, number: int, candidate: Candidate, outcome: Outcome) -> None:
    """An attempt has its outcome."""
    parts.store.finish_attempt(task.key, number, outcome)
    best_ms = min((a.ms for a in parts.store.attempts(task.key) if a.ms is not None), default=None)
    parts.progress.finished(task.key, Attempt(number, candidate, outcome), best_ms)


def _canonical(program: str) -> str:
    """A program without comments, and with single spaces."""
    return " ".join(re.sub(r"//[^\n]*", "", program).split())
