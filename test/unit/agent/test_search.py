"""Search strategies: what they ask for, in what order, and what they never do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import BASELINES, drawn, task

from mucc.agent.core.analysis import Analysis, Limit
from mucc.agent.core.attempts import Attempt, Candidate, Outcome, Status
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.proposer import View
from mucc.agent.core.strategy import Analyze, Budget, Nominate, Pursue, Record, Step
from mucc.agent.search import make
from mucc.agent.search.mcts import reward
from mucc.diagnostics.core import DiagnosticError


class World:
    """Answers the steps of a strategy. `speedup` says what an attempt at a hypothesis gains over its parent,
    None where it fails."""

    def __init__(self, speedup: Any, ideas: Any = None):
        self.speedup, self.ideas = speedup, ideas
        self.named: list[Hypothesis] = []
        first = Outcome(Status.GOOD, ms=2.0, audited=True, label="No Issues")
        self.attempts = [Attempt(0, Candidate("p0", "as imported"), first)]
        self.steps: list[Step] = []

    def view(self) -> View:
        from dataclasses import replace

        return View(replace(task(bound_ms=0.25), baselines=BASELINES), list(self.attempts), self.named)

    def hypotheses(self) -> Sequence[Hypothesis]:
        return self.named

    def run(self, strategy: Any) -> list[Step]:
        generator = strategy.steps(self)
        answer: Any = None
        while True:
            try:
                step = generator.send(answer)
            except StopIteration:
                return self.steps
            self.steps.append(step)
            assert len(self.steps) < 500
            answer = self.answer(step)

    def answer(self, step: Step) -> Any:
        match step:
            case Analyze():
                assert step.attempt < len(self.attempts)
                return Analysis(Limit.COMPUTE, 4.0)
            case Nominate():
                first = len(self.named)
                count = step.count if self.ideas is None else self.ideas(step, first)
                found = [
                    (n, Hypothesis(f"idea {n}", "…", f"kind{n % 3}", 1 + drawn("s", n), parent=step.parent))
                    for n in range(first, first + count)
                ]
                self.named += [h for _, h in found]
                return found
            case Pursue():
                assert step.attempts > 0 and len(set(step.hypotheses)) == len(step.hypotheses)
                made: list[Attempt] = []
                for number in step.hypotheses:
                    for n in range(step.attempts):
                        made.append(self.attempt(number, n, len(self.attempts) + len(made)))
                self.attempts += made
                return made
            case Record():
                return None

    def attempt(self, hypothesis: int, n: int, number: int) -> Attempt:
        parent = self.named[hypothesis].parent
        gain = self.speedup(hypothesis, n)
        candidate = Candidate(f"p{number}", f"change {number}", parent, hypothesis)
        if gain is None:
            return Attempt(number, candidate, Outcome(Status.WRONG))
        if gain == 0:
            return Attempt(number, candidate, Outcome(Status.REPEATED))
        before = self.attempts[parent].outcome.ms or 2.0
        ms = max(before / gain, 0.25)
        return Attempt(number, candidate, Outcome(Status.GOOD, ms=ms, audited=True))

    @property
    def spent(self) -> int:
        return sum(a.spent for a in self.attempts[1:])


GAINS = st.sampled_from([None, 0, 0.8, 1.0, 1.1, 1.5])


@pytest.mark.parametrize("name", ["mantis", "mi", "mcts"])
@settings(max_examples=examples(40))
@given(
    gains=st.lists(GAINS, min_size=1, max_size=30),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 4)),
    ideas=st.integers(0, 40),
)
def test_every_search_ends_within_its_budget(
    name: str, gains: list[float | None], shape: tuple[int, int, int], ideas: int
):
    budget = Budget(*shape)

    def run() -> World:
        world = World(
            lambda h, n: gains[(3 * h + n) % len(gains)],
            lambda step, first: min(step.count, max(ideas - first, 0)),
        )
        world.run(make(name, budget))
        return world

    world = run()
    assert world.spent <= budget.most
    assert run().steps == world.steps  # it depends on nothing but what it is told


def test_mantis_spends_all_that_hypotheses_leave_over():
    world = World(lambda h, n: 1.05 if n < 4 else None)
    steps = world.run(make("mantis", Budget(5, 2, 4)))
    assert world.spent == 40
    nominated = [s for s in steps if isinstance(s, Nominate)]
    assert len(nominated) == 5 and {s.count for s in nominated} == {4}
    records = [s.phase for s in steps if isinstance(s, Record)]
    assert records == ["Triage", "Summarize"] * 5


def test_mantis_pursues_by_return_on_investment_and_passes_on_what_is_left():
    order = sorted(range(4), key=lambda n: -drawn("s", n))
    world = World(lambda h, n: 0 if h in order[:2] else 1.01)
    steps = world.run(make("mantis", Budget(1, 2, 4)))
    triage = next(s for s in steps if isinstance(s, Record))
    assert [row["number"] for row in triage.data["ranking"]] == order
    pursued = [s.hypotheses for s in steps if isinstance(s, Pursue)]
    assert pursued == [tuple(order[:2]), tuple(order[2:])] and world.spent == 8


def test_mantis_asks_on_other_programs_when_nothing_comes_to_mind_on_the_best():
    world = World(lambda h, n: 1.2, lambda step, first: 0 if step.parent in (1, 2) else step.count)
    steps = world.run(make("mantis", Budget(2, 1, 2)))
    assert [s.parent for s in steps if isinstance(s, Nominate)] == [0, 1, 2, 0]


def test_mi_goes_on_from_the_best():
    world = World(lambda h, n: 1.1 if n == 0 else 0.9)
    steps = world.run(make("mi", Budget(3, 1, 2)))
    parents = [s.parent for s in steps if isinstance(s, Nominate)]
    assert parents == [0, 1, 3] and world.spent == 6


def test_mcts_digs_where_it_gains_and_leaves_dead_ends():
    """All that descends from hypothesis 0 gains, the rest loses threefold."""
    lucky = {0}

    def speedup(hypothesis: int, n: int) -> float:
        parent = world.attempts[world.named[hypothesis].parent].candidate.hypothesis
        if hypothesis == 0 or parent in lucky:
            lucky.add(hypothesis)
            return 1.15
        return 0.3

    world = World(speedup)
    steps = world.run(make("mcts", Budget(5, 2, 4)))
    parents = [s.parent for s in steps if isinstance(s, Nominate)]
    slow = {a.number for a in world.attempts if (a.outcome.ms or 0) > 2 * 2.0}
    assert slow and not slow & set(parents)
    depths = {0: 0}
    for a in world.attempts[1:]:
        depths[a.number] = depths[a.candidate.parent or 0] + 1
    assert max(depths.values()) >= 3
    last = steps[-1]
    assert isinstance(last, Record) and len(last.data["tree"]) == len(world.attempts)


def test_mcts_remembers_which_kinds_fared_well():
    world = World(lambda h, n: 1.2 if h % 3 == 0 else None)
    steps = world.run(make("mcts", Budget(5, 2, 4), {"nominated": 6, "memory": 0.5}))
    pursued = [s.hypotheses[0] for s in steps if isinstance(s, Pursue)]
    later = pursued[6:]
    assert sum(n % 3 == 0 for n in later) > len(later) / 2


def test_mcts_widens_as_visits_grow():
    """With the widest root every idea is a child of it, with the narrowest only one is."""

    def parents(width: float) -> list[int]:
        world = World(lambda h, n: 1.02)
        constants = {"width": width, "widening": 0.0, "asymmetry": 0.0, "repairs": 1}
        world.run(make("mcts", Budget(2, 2, 2), constants))
        return [a.candidate.parent or 0 for a in world.attempts[1:]]

    assert set(parents(100.0)) == {0}
    assert parents(1.0).count(0) == 1


def test_the_reward_is_the_logarithm_of_the_speedup():
    world = World(lambda h, n: 1.0)
    view = world.view()
    assert reward(view.attempts[0], view) == 0.0

    def at(ms: float) -> float:
        return reward(Attempt(1, Candidate("p", "c"), Outcome(Status.GOOD, ms=ms)), view)

    assert at(0.25) == pytest.approx(1.0)
    assert at(1.0) - at(2.0) == pytest.approx(at(0.5) - at(1.0)) and at(4.0) < 0
    assert reward(Attempt(1, Candidate("p", "c"), Outcome(Status.CRASHED)), view) == 0.0


@pytest.mark.parametrize(
    ("name", "constants", "said"),
    [
        ("mantiss", {}, "mantis"),
        ("mcts", {"exploraton": 1.0}, "exploration"),
        ("mi", {"width": 1.0}, "patience"),
        ("mcts", {"width": -1.0}, "not negative"),
        ("mcts", {"width": float("nan")}, "not negative"),
    ],
)
def test_wrong_names_and_values_are_told(name: str, constants: dict[str, float], said: str):
    with pytest.raises(DiagnosticError) as caught:
        make(name, Budget(), constants)
    found = caught.value.diagnostics[0]
    assert found.code == "MU7207" and said in " ".join([found.message, *found.helps])
