"""Replay stop policies over stored runs: where each would have stopped, and with which result.

Nothing is known to a policy but what had happened by then, and nothing counts but what the audit had accepted
by then. The rules are those of `stopping` and of the engine's turns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mucc.agent.budget.stopping import Standing, expected_gain
from mucc.agent.budget.traces import Cost, Trace, Try
from mucc.agent.core.strategy import Budget
from mucc.api.json_types import Json

UNBOUNDED = 1 << 30


@dataclass(frozen=True, slots=True)
class Policy:
    """When searches stop. `most` attempts a task; `share` of all attempts of the set that its tasks may
    spend together, by expected gain. None: no such rule."""

    epsilon: float | None = None
    window: int | None = None
    most: int | None = None
    share: float | None = None

    @property
    def budget(self) -> Budget:
        """The stop rules of a task."""
        most = UNBOUNDED if self.most is None else self.most
        return Budget(1, 1, most, epsilon=self.epsilon, window=self.window)

    def __str__(self) -> str:
        parts = [
            *([] if self.epsilon is None else [f"ε {self.epsilon:.0%}"]),
            *([] if self.window is None else [f"w {self.window}"]),
            *([] if self.most is None else [f"{self.most} attempts"]),
            *([] if self.share is None else [f"{self.share:.0%} shared"]),
        ]
        return ", ".join(parts) or "everything"

    def to_json(self) -> Json:
        """As plain values."""
        return {"epsilon": self.epsilon, "window": self.window, "most": self.most, "share": self.share}


@dataclass(frozen=True, slots=True)
class Taken:
    """The result and cost of a policy on a task; `why` it stopped, empty where the run did."""

    best_ms: float | None
    speedup: float
    cost: Cost
    why: str = ""


class Replay:
    """One task under a policy: advances by what may be begun together."""

    def __init__(self, trace: Trace, budget: Budget):
        self.trace, self.budget = trace, budget
        self.standing = Standing()
        self.cost = Cost()
        self.why = ""
        self._round = self._place = 0
        if trace.first is not None:
            self._take(trace.first)

    def _take(self, one: Try) -> None:
        self.cost += one.cost
        if one.cost.attempts or self.standing.attempts < 0:
            self.standing.add(one.ms)

    def over(self) -> bool:
        """Whether the policy, or the run itself, ends the search here."""
        if self._round >= len(self.trace.rounds):
            return True
        self.why = self.standing.reason(self.budget, self.trace.bound_ms, self.trace.baseline_ms)
        return bool(self.why)

    def advance(self, most: int) -> int:
        """Take what may begin together, at most so many attempts; how many there were."""
        room = min(self.standing.room(self.budget, self.trace.baseline_ms), most)
        entries = self.trace.rounds[self._round]
        taken = 0
        while self._place < len(entries):
            one = entries[self._place]
            if one.cost.attempts and taken >= room:
                break
            self._take(one)
            taken += one.cost.attempts
            self._place += 1
        else:
            self._round, self._place = self._round + 1, 0
        return taken

    def taken(self) -> Taken:
        """Return the result of the replay."""
        best = self.standing.best_ms
        return Taken(best, self.trace.speedup(best), self.cost + self.trace.after, self.why)


def replay_task(trace: Trace, policy: Policy) -> Taken:
    """One task by itself."""
    replay = Replay(trace, policy.budget)
    while not replay.over():
        replay.advance(UNBOUNDED)
    return replay.taken()


def replay_set(traces: Sequence[Trace], policy: Policy) -> list[Taken]:
    """All tasks of a run. With a shared budget, rounds go one by one to the task that may gain the most."""
    if policy.share is None:
        return [replay_task(trace, policy) for trace in traces]
    replays = [Replay(trace, policy.budget) for trace in traces]
    left = math.floor(policy.share * sum(one.cost.attempts for t in traces for one in t.tries()))
    gains = {n: _gain(replay) for n, replay in enumerate(replays) if not replay.over()}
    while gains and left > 0:
        n = max(gains, key=lambda place: (gains[place], -place))
        left -= replays[n].advance(left)
        if replays[n].over():
            del gains[n]
        else:
            gains[n] = _gain(replays[n])
    for n in gains:
        replays[n].why = "the shared budget is spent"
    return [replay.taken() for replay in replays]


def _gain(replay: Replay) -> float:
    return expected_gain(replay.standing.best_ms, replay.trace.bound_ms, replay.standing.since)


@dataclass(frozen=True, slots=True)
class Measure:
    """A policy over several tasks, against everything that the runs did.

    `retained` is its geometric mean of speedups over theirs; `efficiency` that, times their cost over its
    cost, in tokens where models were asked and in attempts where not (`by`).
    """

    speedup: float
    retained: float
    cost: Cost
    fixed: Cost
    by: str

    @property
    def attempts_saved(self) -> float:
        return _saved(self.cost.attempts, self.fixed.attempts)

    @property
    def tokens_saved(self) -> float:
        return _saved(self.cost.tokens, self.fixed.tokens)

    @property
    def seconds_saved(self) -> float:
        return _saved(self.cost.seconds, self.fixed.seconds)

    @property
    def price(self) -> int:
        """What it cost, in tokens or attempts."""
        return self.cost.tokens if self.by == "tokens" else self.cost.attempts

    @property
    def efficiency(self) -> float:
        """The efficiency gain; a policy that spends nothing is taken to spend one."""
        fixed = self.fixed.tokens if self.by == "tokens" else self.fixed.attempts
        return self.retained * max(fixed, 1) / max(self.price, 1)

    def to_json(self) -> dict[str, float]:
        """As plain values."""
        return {
            "speedup": self.speedup,
            "retained": self.retained,
            "attempts": self.cost.attempts,
            "tokens": self.cost.tokens,
            "seconds": round(self.cost.seconds, 3),
            "attempts_saved": self.attempts_saved,
            "tokens_saved": self.tokens_saved,
            "seconds_saved": self.seconds_saved,
            "efficiency": self.efficiency,
        }


def _saved(spent: float, fixed: float) -> float:
    return 1 - spent / fixed if fixed else 0.0


def measure(taken: Sequence[Taken], everything: Sequence[Taken]) -> Measure:
    """Return a policy's results against those of everything, of the same tasks."""
    total, fixed = Total.of(taken), Total.of(everything)
    by = "tokens" if fixed.cost.tokens else "attempts"
    return Measure(total.speedup, total.speedup / fixed.speedup, total.cost, fixed.cost, by)


@dataclass(frozen=True, slots=True)
class Total:
    """The geometric mean of speedups of several tasks, and what they cost together."""

    speedup: float
    cost: Cost

    @classmethod
    def of(cls, taken: Sequence[Taken]) -> Total:
        """Of these."""
        costs = [t.cost for t in taken]
        attempts, tokens = sum(c.attempts for c in costs), sum(c.tokens for c in costs)
        cost = Cost(attempts, tokens, math.fsum(c.seconds for c in costs))
        return cls(_geomean([t.speedup for t in taken]), cost)


def _geomean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else 1.0


def replay_all(sets: Sequence[Sequence[Trace]], policies: Sequence[Policy]) -> Mapping[Policy, list[Taken]]:
    """Every policy over every run, the tasks of all runs one after another."""
    return {policy: [taken for traces in sets for taken in replay_set(traces, policy)] for policy in policies}
