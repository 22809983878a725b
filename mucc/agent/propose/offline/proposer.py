"""The offline proposer: hypotheses from the compiler's model, ranked by what measured times say of it."""

from __future__ import annotations

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from mucc.agent.core.attempts import Attempt, Candidate
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.proposer import ProposerFailed, Reply, View, features_of
from mucc.agent.propose.offline.evidence import (
    HELPED,
    WEIGHT,
    Known,
    advised,
    known,
    learnt,
    point_of,
)
from mucc.agent.propose.offline.ideas import Family, Idea, families, groups, joined, refined
from mucc.agent.propose.offline.programs import Place
from mucc.agent.propose.offline.repair import repaired
from mucc.agent.propose.offline.surrogate import Point, Surrogate
from mucc.agent.propose.offline.surveys import Surveys, Version, dims_of
from mucc.api.json_types import Json
from mucc.api.schedules import Move

LEAST_GAIN = 0.0005
"""An idea that is expected to gain less than this part of the time is not worth an attempt."""

FREE = 1.25
"""How much more a program counts for which nothing is left to compile."""

CAUTION = 0.2
"""How much triage prefers what is likely to help over what would help more. Of 0, 0.02, 0.05, 0.2 and 1 the
best on half of the measured times of bench/results/h200."""

TOGETHER = 4
"""Programs of a hypothesis that are weighed as one batch, as MANTIS evaluates them."""

SPARE = 8
"""Programs that a hypothesis names."""

WEIGHED = 16
"""Of so many, the best each by itself, a batch is put together."""

KEPT = 24
"""Programs whose ideas are remembered: one or two of each task that goes on at the same time."""

JOINT = 6
"""Programs that change all stages at once."""


@dataclass
class Entrant:
    """An idea that was not tried, with its expected gain."""

    idea: Idea
    point: Point
    works: float
    jitter: float

    def worth(self, surrogate: Surrogate, best: float, built: AbstractSet[str]) -> float:
        """Return the gain to expect of an attempt, more where nothing is left to compile."""
        gain = surrogate.tell(self.point).gain(best) * self.works
        return gain * (FREE if self.idea.version.skeletons <= built else 1.0) * self.jitter

    def copy(self) -> Entrant:
        return replace(self, point=replace(self.point, solved=list(self.point.solved)))


@dataclass(frozen=True)
class Pool:
    """A family, and its ideas that were not tried."""

    family: Family
    entrants: Sequence[Entrant]


class Offline:
    """Nominates schedules, fusions, algebra and precision within the policy, without a network.

    What it says depends on the view alone; what it keeps are answers of the compiler.
    """

    name = "offline"

    def __init__(self, surveys: Surveys | None = None) -> None:
        self._surveys = surveys or Surveys()
        self._lock = threading.Lock()
        self._known: OrderedDict[object, Sequence[Family]] = OrderedDict()

    def nominate(self, view: View, count: int, parent: Attempt) -> Reply[Sequence[Hypothesis]]:
        """Up to `count` hypotheses, the most promising first; fewer, or none, where nothing is expected to
        help. Raises ProposerFailed (MU7231) for a program that the compiler does not take."""
        facts, start = self._parent(view, parent)
        surrogate = facts.surrogate.copy()
        pools = self._pools(view, start, facts, surrogate)
        chosen: list[Hypothesis] = []
        while pools and len(chosen) < count:
            rated = [(self._hypothesis(view, parent.number, p, facts, surrogate), p) for p in pools]
            found = [(worth, h, p) for (worth, h), p in rated if h is not None]
            if not found:
                break
            _, hypothesis, best = max(found, key=lambda r: r[0])
            ordered = batch(best.entrants, surrogate, facts, SPARE)
            moves = [_stored(e.idea) for e in ordered]
            chosen.append(replace(hypothesis, moves=moves))
            for entrant in ordered[:TOGETHER]:
                surrogate.suppose(entrant.copy().point)
            taken = {e.idea.version.key for e in ordered}
            pools = [_without(p, taken) for p in pools if p is not best]
        return Reply(chosen)

    def implement(
        self, view: View, number: int, hypothesis: Hypothesis, earlier: Sequence[Attempt], count: int
    ) -> Reply[Sequence[Candidate]]:
        """Up to `count` programs that were not tried: what mends rejected ones, then what is left of the
        hypothesis, then neighbours of the best that it has led to."""
        facts = known(self._surveys, view)
        found = [*self._repairs(view, number, earlier, facts)]
        ideas = list(self._left(view, hypothesis, facts))
        parents = dict.fromkeys((i.version.key for i in ideas), hypothesis.parent)
        if len(found) + len(ideas) < count:
            for attempt in self._helped(view, hypothesis, earlier):
                version = facts.versions[attempt.number]
                changed = _changed(facts.versions.get(hypothesis.parent), version)
                near = [i for i in refined(version, changed) if i.version.key not in parents]
                parents |= dict.fromkeys((i.version.key for i in near), attempt.number)
                ideas += near
        surrogate = facts.surrogate.copy()
        fresh = entrants_of(view, ideas, facts)
        for entrant in batch(fresh, surrogate, facts, count - len(found)):
            idea = entrant.idea
            parent = parents[idea.version.key]
            found.append(Candidate(idea.version.text, idea.change, parent, number))
        return Reply(found[:count])

    # What there is

    def _parent(self, view: View, parent: Attempt) -> tuple[Known, Version]:
        facts = known(self._surveys, view)
        version = facts.versions.get(parent.number)
        version = version or self._surveys.version(view.task, parent.candidate.program)
        version = version or self._surveys.version(view.task, view.task.imported.program)
        if version is None:
            message = f"the compiler does not take the program of {view.task.key}"
            raise ProposerFailed("MU7231", message, final=False)
        return facts, version

    def _families(self, view: View, start: Version) -> Sequence[Family]:
        """All ideas on a program, which are the same whatever was measured."""
        task = view.task
        key = (
            task.target,
            task.card,
            task.precision,
            tuple(dims_of(task).items()),
            start.key,
            start.explicit,
        )
        with self._lock:
            if (found := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return found
        found = families(self._surveys, task, start)
        with self._lock:
            self._known[key] = found
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return found

    def _pools(self, view: View, start: Version, facts: Known, surrogate: Surrogate) -> list[Pool]:
        """All families with what was not tried of them, and one that joins the best of all stages."""
        pools = [Pool(f, entrants_of(view, f.ideas, facts)) for f in self._families(view, start)]
        stages = groups(start.sketch)
        if len(stages) > 1:
            best: dict[tuple[Place, ...], Sequence[Move]] = {}
            for places in stages:
                own = [e for p in pools if p.family.places == places for e in p.entrants]
                ordered = batch(own, surrogate, facts, JOINT)
                moves = [e.idea.version.choice[places[0]] for e in ordered]
                best[places] = moves or [start.choice[places[0]]]
            family = joined(start, best, JOINT)
            pools.append(Pool(family, entrants_of(view, family.ideas, facts)))
        return pools

    def _hypothesis(
        self, view: View, number: int, pool: Pool, facts: Known, surrogate: Surrogate
    ) -> tuple[float, Hypothesis | None]:
        """Return a family by its best program, after those that were chosen already, with the gain to expect;
        None where it should not help.
        """
        best = _best(facts, pool.entrants)
        if not pool.entrants:
            return 0.0, None
        first = max(pool.entrants, key=lambda e: e.worth(surrogate, best, facts.built))
        belief = surrogate.tell(first.point)
        if belief.gain(best) < LEAST_GAIN:
            return 0.0, None
        family, why = pool.family, pool.family.why
        worthwhile = best - math.log(HELPED)
        chance = min(max(belief.chance(worthwhile), 1e-3), 0.999)
        if_it_helps = belief.gain(worthwhile) / chance + math.log(HELPED)
        features = features_of(view.task, view.analysis)
        chance, if_it_helps, lessons = learnt(view.lessons, family.kind, features, chance, if_it_helps)
        if chance * if_it_helps * first.works < LEAST_GAIN:
            return 0.0, None
        if lessons:
            why += f"; {lessons} lessons of other problems are weighed in"
        if view.analysis and (advice := advised(view.analysis.advice, family)):
            odds = chance / (1 - chance) * WEIGHT[advice.severity]
            chance = odds / (1 + odds)
            why += f"; the profile says: {advice.cause}"
        hypothesis = Hypothesis(
            family.title,
            why,
            family.kind,
            math.exp(if_it_helps),
            1 / max(first.works, 0.05),
            # What is promised over what is to be expected: triage divides by it.
            math.exp((1 - chance) * if_it_helps) / chance**CAUTION,
            number,
        )
        return chance * if_it_helps * first.works, hypothesis

    # Programs of a hypothesis

    def _repairs(
        self, view: View, number: int, earlier: Sequence[Attempt], facts: Known
    ) -> Iterator[Candidate]:
        texts = {a.candidate.program for a in view.attempts}
        for attempt in earlier:
            if (mended := repaired(attempt)) is None or mended[0] in texts:
                continue
            version = self._surveys.version(view.task, mended[0])
            if version is not None and version.key not in facts.tried:
                texts.add(mended[0])
                yield Candidate(mended[0], mended[1], attempt.number, number)

    def _left(self, view: View, hypothesis: Hypothesis, facts: Known) -> Iterator[Idea]:
        """Yield the programs that a hypothesis names and that are legal and new."""
        for move in hypothesis.moves:
            idea = self._restored(view, move)
            if idea is not None and idea.version.key not in facts.tried:
                yield idea

    def _restored(self, view: View, move: Mapping[str, Any]) -> Idea | None:
        """Return the idea that `_stored` wrote down; None for what another proposer wrote."""
        body, schedules, change = move.get("body"), move.get("schedules"), move.get("change")
        if not isinstance(body, str) or not isinstance(schedules, list) or not isinstance(change, str):
            return None
        if (sketch := self._surveys.sketch(view.task, body)) is None:
            return None
        choice = sketch.chosen()
        explicit: set[Place] = set()
        for entry in schedules:  # pyright: ignore[reportUnknownVariableType]
            try:
                kernel, stage, settings = entry  # pyright: ignore[reportUnknownVariableType]
                place = (str(kernel), str(stage))  # pyright: ignore[reportUnknownArgumentType]
                found = sketch.contractions[place].move({str(n): str(t) for n, t in settings.items()})  # pyright: ignore
            except (ValueError, TypeError, KeyError, AttributeError):
                return None
            if found is None:
                return None
            choice[place] = found
            explicit.add(place)
        return Idea(Version(sketch, choice, frozenset(explicit)), change)

    def _helped(self, view: View, hypothesis: Hypothesis, earlier: Sequence[Attempt]) -> list[Attempt]:
        """Return the attempts at a hypothesis that were faster than what it began with, the fastest first."""
        times = {a.number: a.outcome.ms for a in view.attempts}
        start = times.get(hypothesis.parent)
        good = [a for a in earlier if a.ms is not None or (a.outcome.ms and a.outcome.status == "good")]
        good = [a for a in good if start is None or (a.outcome.ms or math.inf) < start]
        good = [a for a in good if self._surveys.version(view.task, a.candidate.program) is not None]
        return sorted(good, key=lambda a: a.outcome.ms or math.inf)[:2]


def entrants_of(view: View, ideas: Sequence[Idea], facts: Known) -> list[Entrant]:
    """Return the ideas that were not tried, each program once."""
    fresh = {i.version.key: i for i in ideas if i.version.key not in facts.tried}
    return [
        Entrant(i, point_of(i.version), facts.works(i.version), 1 + 1e-6 * _jitter(view.seed, i))
        for i in fresh.values()
    ]


def batch(entrants: Sequence[Entrant], surrogate: Surrogate, facts: Known, count: int) -> list[Entrant]:
    """Those to try first, each chosen as if the ones before it had been measured as they are expected."""
    best, built = _best(facts, entrants), set(facts.built)
    left = sorted(entrants, key=lambda e: -e.worth(surrogate, best, built))[:WEIGHED]
    left, surrogate = [e.copy() for e in left], surrogate.copy()
    chosen: list[Entrant] = []
    while left and len(chosen) < count:
        taken = left[0]
        value = 0.0
        for entrant in left:
            if (worth := entrant.worth(surrogate, best, built)) > value:
                taken, value = entrant, worth
        left.remove(taken)
        chosen.append(taken.copy())
        built |= taken.idea.version.skeletons
        best = min(best, taken.point.expected + taken.point.mean)
        surrogate.suppose(taken.point)
    return chosen


def _best(facts: Known, entrants: Sequence[Entrant]) -> float:
    """Return the least time so far; where there is none, what the model expects of the best."""
    if facts.best is not None:
        return facts.best
    return min((e.point.expected for e in entrants), default=0.0)


def _without(pool: Pool, keys: AbstractSet[object]) -> Pool:
    """Return a pool less the programs that are taken."""
    return replace(pool, entrants=[e for e in pool.entrants if e.idea.version.key not in keys])


def _changed(start: Version | None, version: Version) -> list[Place]:
    """Where a program has another schedule than the one that it was made from; all if kernels differ."""
    if start is None or start.sketch.body != version.sketch.body:
        return list(version.choice)
    found = [p for p in version.choice if version.choice[p].settings != start.choice[p].settings]
    return found or list(version.choice)


def _stored(idea: Idea) -> Json:
    """Return an idea as plain data: kernels, and the schedules that its text has."""
    version = idea.version
    schedules = [
        [kernel, stage, dict(version.choice[kernel, stage].settings)]
        for kernel, stage in version.choice
        if (kernel, stage) in version.explicit
    ]
    return {"body": version.sketch.body, "schedules": schedules, "change": idea.change}


def _jitter(seed: int, idea: Idea) -> float:
    """Return a number from 0 to 1 that orders equal candidates."""
    text = f"{seed} {idea.version.key!r}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest()) / 2**32
