"""Choose a stop policy: replay a grid of policies, and recommend the cheapest that keeps enough speedup."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mucc.agent.budget.replay import Measure, Policy, Taken, measure, replay_all
from mucc.agent.budget.traces import Trace
from mucc.api.json_types import Json

KEEP = 0.95
"""The part of the geometric mean that a policy has to keep."""

EPSILONS = (None, 0.1, 0.25, 0.5, 1.0, 1.5, 2.5, 4.0)
WINDOWS = (None, 4, 6, 8, 10, 12, 16, 20)
MOST = (None, 32, 28, 24, 20, 16, 12, 8)
SHARES = (0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)

HALVES = 20
"""How many times the problems are split in half."""

Results = Mapping[Policy, Sequence[Taken]]


def grid(*, shared: bool) -> list[Policy]:
    """Return the policies that are tried, the one that spends everything first. `shared`: with budgets that
    the tasks of a set share, too.
    """
    found = [Policy(e, w, most) for most in MOST for e in EPSILONS for w in WINDOWS]
    if shared:
        found += [Policy(e, w, None, s) for s in SHARES for e in (None, 0.1, 0.25) for w in (None, 8, 12)]
    return found


EVERYTHING = Policy()


@dataclass(frozen=True, slots=True)
class Held:
    """Choices that were made on some problems and measured on others: the geometric mean that was kept
    there, the worst of all splits, the attempts saved, and how often which policy was chosen."""

    splits: int
    retained: float
    worst: float
    attempts_saved: float
    tokens_saved: float
    chosen: Mapping[str, int]

    def to_json(self) -> Json:
        """As plain values."""
        return {
            "splits": self.splits,
            "retained": self.retained,
            "worst": self.worst,
            "attempts_saved": self.attempts_saved,
            "tokens_saved": self.tokens_saved,
            "chosen": dict(self.chosen),
        }


@dataclass(frozen=True)
class Choice:
    """The results of a grid of policies on stored runs. `own` is the policy of the runs where they say."""

    tasks: int
    problems: int
    keep: float
    measures: Mapping[Policy, Measure]
    front: Sequence[Policy]
    recommended: Policy
    own: Policy | None
    left_out: Held | None
    halves: Held | None

    def to_json(self) -> Json:
        """As plain values: docs/agent/replay.md says what they mean."""
        everything = self.measures[EVERYTHING]
        return {
            "tasks": self.tasks,
            "problems": self.problems,
            "keep": self.keep,
            "by": everything.by,
            "everything": everything.to_json(),
            "recommended": self._entry(self.recommended),
            "own": self._entry(self.own) if self.own is not None else None,
            "front": [self._entry(policy) for policy in self.front],
            "leave_one_out": self.left_out.to_json() if self.left_out else None,
            "halves": self.halves.to_json() if self.halves else None,
            "grid": [self._entry(policy) for policy in self.measures],
        }

    def _entry(self, policy: Policy) -> Json:
        return {"policy": policy.to_json(), **self.measures[policy].to_json()}


def choose(sets: Sequence[Sequence[Trace]], *, keep: float = KEEP, own: Policy | None = None) -> Choice:
    """Replay the grid over runs, and recommend.

    Tasks without any result that counts say nothing about when to stop and are in all means as 1.
    """
    policies = grid(shared=any(len(traces) > 1 for traces in sets))
    if own is not None and own not in policies:
        policies.append(own)
    results = replay_all(sets, policies)
    keys = [trace.key for traces in sets for trace in traces]
    everyone = range(len(keys))
    measures = {policy: _measure(results, policy, everyone) for policy in policies}
    problems = sorted(set(keys))
    return Choice(
        tasks=len(keys),
        problems=len(problems),
        keep=keep,
        measures=measures,
        front=pareto(measures),
        recommended=recommend(measures, keep),
        own=own,
        left_out=_held(results, _leave_one_out(keys, problems), keep) if len(problems) > 1 else None,
        halves=_held(results, _halves(keys, problems), keep) if len(problems) > 3 else None,
    )


def recommend(measures: Mapping[Policy, Measure], keep: float) -> Policy:
    """Return the cheapest policy that keeps enough; of equally cheap ones that with the largest efficiency
    gain, then the most patient.
    """
    kept = [policy for policy, found in measures.items() if found.retained >= keep]
    return min(
        kept, default=EVERYTHING, key=lambda p: (measures[p].price, -measures[p].efficiency, _impatience(p))
    )


def _impatience(policy: Policy) -> tuple[float, float, float, float]:
    share = 1.0 if policy.share is None else policy.share
    return -share, policy.epsilon or 0.0, -(policy.window or 1e9), -(policy.most or 1e9)


def pareto(measures: Mapping[Policy, Measure]) -> list[Policy]:
    """Return the policies that no other beats in both, cheapest first; of equal ones the most patient."""
    order = sorted(measures, key=lambda p: (measures[p].price, -measures[p].retained, _impatience(p)))
    found: list[Policy] = []
    for policy in order:
        if not found or measures[policy].retained > measures[found[-1]].retained + 1e-12:
            found.append(policy)
    return found


def _measure(results: Results, policy: Policy, places: Iterable[int]) -> Measure:
    taken, everything = results[policy], results[EVERYTHING]
    chosen = list(places)
    return measure([taken[n] for n in chosen], [everything[n] for n in chosen])


Split = tuple[list[int], list[int]]
"""The tasks on which a policy is chosen, and those on which it is measured."""


def _leave_one_out(keys: Sequence[str], problems: Sequence[str]) -> list[Split]:
    return [_split(keys, lambda key, left=problem: key != left) for problem in problems]


def _halves(keys: Sequence[str], problems: Sequence[str]) -> list[Split]:
    rng = random.Random(0)
    found: list[Split] = []
    for _ in range(HALVES):
        half = set(rng.sample(list(problems), len(problems) // 2))
        found.append(_split(keys, lambda key, half=half: key in half))
    return found


def _split(keys: Sequence[str], inside: Callable[[str], bool]) -> Split:
    ours = [n for n, key in enumerate(keys) if inside(key)]
    return ours, [n for n, key in enumerate(keys) if not inside(key)]


def _held(results: Results, splits: Sequence[Split], keep: float) -> Held:
    """Choose on one part of each split, measure on the other; all measured parts together."""
    taken: list[Taken] = []
    everything: list[Taken] = []
    chosen: dict[str, int] = {}
    worst = float("inf")
    for ours, others in splits:
        policy = recommend({p: _measure(results, p, ours) for p in results}, keep)
        chosen[str(policy)] = chosen.get(str(policy), 0) + 1
        taken += [results[policy][n] for n in others]
        everything += [results[EVERYTHING][n] for n in others]
        worst = min(worst, _measure(results, policy, others).retained)
    found = measure(taken, everything)
    by_count = dict(sorted(chosen.items(), key=lambda pair: -pair[1]))
    return Held(len(splits), found.retained, worst, found.attempts_saved, found.tokens_saved, by_count)
