"""Monte-Carlo tree search over programs, after KernelPro (arXiv 2606.26453).

A node is an attempt, its children are what hypotheses made of it. Each round walks down by upper confidence
bounds; a node gets another child only as its visits grow (progressive widening), and the more of them the
better its own time is (asymmetric branching). The reward is the logarithm of the speedup over the program as
imported, over that of the speed of light. A node whose children only failed, or that is far slower than the
best, is a dead end. How kinds of changes fared anywhere in the tree (search memory) orders the hypotheses of
a node. The constants were not published: they are parameters, to be chosen by replay.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any

from mucc.agent.core.attempts import Attempt
from mucc.agent.core.hypotheses import Hypothesis, roi
from mucc.agent.core.proposer import View
from mucc.agent.core.strategy import Analyze, Budget, Nominate, Pursue, Record, Step, Views
from mucc.agent.search.common import gap_of, parent_of, right
from mucc.api.json_types import Json


@dataclass(frozen=True)
class Constants:
    """`exploration` weighs the upper confidence bound. A node of n visits has at most
    `width` * n ** `widening` children, times 1 + `asymmetry` * its reward. `dead_after` children in a row
    without a right program end a node, so does a time of more than `prune` times the best. `nominated`
    hypotheses are asked for at a time, `repairs` are the attempts that each gets; `memory` is how many
    observations an expectation weighs as much as, and `depth` the longest chain of changes. The search
    is over after `patience` hypotheses in a row that cost no attempt."""

    exploration: float = 0.5
    width: float = 1.0
    widening: float = 0.5
    asymmetry: float = 1.0
    dead_after: int = 3
    prune: float = 2.0
    nominated: int = 4
    repairs: int = 2
    memory: float = 2.0
    depth: int = 12
    patience: int = 6


@dataclass
class Node:
    """A program of the tree: `ideas` are hypotheses that were named on it and not pursued yet."""

    attempt: Attempt
    parent: Node | None
    children: list[Node] = field(default_factory=list["Node"])
    ideas: dict[int, Hypothesis] = field(default_factory=dict[int, Hypothesis])
    visits: int = 0
    value: float = 0.0
    tries: int = 0
    failures: int = 0
    exhausted: bool = False

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1


class Memory:
    """The logarithms of speedups that kinds of changes had, anywhere in the tree."""

    def __init__(self, weight: float):
        self._weight = weight
        self._seen: dict[str, list[float]] = {}

    def add(self, kind: str, gain: float) -> None:
        self._seen.setdefault(kind, []).append(gain)

    def expected(self, hypothesis: Hypothesis) -> Hypothesis:
        """Return the hypothesis with a speedup between its own estimate and the mean of its kind."""
        seen = self._seen.get(hypothesis.kind, [])
        own = math.log(max(hypothesis.speedup, 1e-9))
        mean = (self._weight * own + sum(seen)) / (self._weight + len(seen)) if self._weight or seen else own
        return replace(hypothesis, speedup=math.exp(mean))


class Mcts:
    """The strategy MCTS."""

    name = "mcts"
    Constants = Constants

    def __init__(self, budget: Budget, constants: Constants = Constants()):  # noqa: B008
        self.budget, self.constants = budget, constants

    def steps(self, views: Views) -> Generator[Step, Any, None]:
        """Yield the steps for one task."""
        constants = self.constants
        root = Node(views.view().attempts[0], None)
        memory = Memory(constants.memory)
        analysed: set[int] = set()
        left, idle = self.budget.most, 0
        while left > 0 and idle < max(constants.patience, 1):
            view = views.view()
            node = self._select(root, view)
            if node is None:
                break
            if not node.ideas:
                if node.attempt.number == parent_of(view).number and node.attempt.number not in analysed:
                    analysed.add(node.attempt.number)
                    yield Analyze(node.attempt.number)
                found: list[tuple[int, Hypothesis]] = yield Nominate(
                    node.attempt.number, max(constants.nominated, 1)
                )
                if not found:
                    node.exhausted = True
                    continue
                node.ideas |= dict(found)
            ideas = node.ideas
            number = max(ideas, key=lambda n: (roi(memory.expected(ideas[n]), gap_of(view)), -n))
            hypothesis = ideas.pop(number)
            made: list[Attempt] = yield Pursue((number,), min(max(constants.repairs, 1), left))
            spent = sum(a.spent for a in made)
            left -= spent
            idle = 0 if spent else idle + 1
            self._grow(node, hypothesis, made, views.view(), memory)
        yield _drawn(root)

    def _select(self, root: Node, view: View) -> Node | None:
        """Return the node that gets the next child; None where all are dead ends."""
        best = min((ms for a in view.attempts if (ms := right(a)) is not None), default=None)
        node = root
        if not self._open(node, best):
            return None
        while True:
            below = [child for child in node.children if self._open(child, best)]
            if self._expandable(node) and (not below or node.tries < self._most(node, view)):
                return node
            if not below:
                return None
            node = max(below, key=lambda child: (self._bound(child, node), -child.attempt.number))

    def _open(self, node: Node, best: float | None) -> bool:
        """Whether the node, or anything below it, may get a child."""
        return not self._pruned(node, best) and (
            self._expandable(node) or any(self._open(child, best) for child in node.children)
        )

    def _pruned(self, node: Node, best: float | None) -> bool:
        ms = right(node.attempt)
        return node.parent is not None and bool(ms and best and ms > self.constants.prune * best)

    def _expandable(self, node: Node) -> bool:
        dead = node.failures >= max(self.constants.dead_after, 1) and node.parent is not None
        return not (dead or node.exhausted or node.depth >= self.constants.depth)

    def _most(self, node: Node, view: View) -> float:
        """Return the number of children that the node may have now."""
        asymmetry = 1 + self.constants.asymmetry * max(reward(node.attempt, view), 0.0)
        return max(1.0, self.constants.width * max(node.visits, 1) ** self.constants.widening * asymmetry)

    def _bound(self, child: Node, parent: Node) -> float:
        mean = child.value / child.visits if child.visits else 0.0
        spread = math.sqrt(math.log(max(parent.visits, 1) + 1) / max(child.visits, 1))
        return mean + self.constants.exploration * spread

    def _grow(
        self, node: Node, hypothesis: Hypothesis, made: list[Attempt], view: View, memory: Memory
    ) -> None:
        """Add the attempts of a hypothesis below its node, and update its ancestors with the best."""
        node.tries += 1
        good = [a for a in made if right(a) is not None]
        grown = [Node(a, node) for a in good]
        node.children += grown
        node.failures = 0 if good else node.failures + 1
        gained = max((reward(a, view) for a in good), default=0.0)
        before = right(node.attempt)
        fastest = min((ms for a in good if (ms := right(a)) is not None), default=None)
        if before and fastest:
            memory.add(hypothesis.kind, math.log(before / fastest))
        elif made:
            memory.add(hypothesis.kind, 0.0)
        for child in grown:
            child.visits, child.value = 1, reward(child.attempt, view)
        above: Node | None = node
        while above is not None:
            above.visits += 1
            above.value += gained
            above = above.parent


def reward(attempt: Attempt, view: View) -> float:
    """Return the logarithm of the speedup over the program as imported, 1 at the speed of light."""
    first, ms = right(view.attempts[0]), right(attempt)
    if ms is None:
        return 0.0
    baseline = first or max(view.task.baselines.values(), default=ms)
    bound = view.task.bound_ms
    whole = math.log(baseline / bound) if bound and baseline > bound else 1.0
    return math.log(baseline / ms) / max(whole, 0.1)


def _drawn(root: Node) -> Record:
    lines = ["# Summarize: the tree", ""]
    rows: list[Json] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += reversed(node.children)
        ms = right(node.attempt)
        time_ms = f"{ms:.4f} ms" if ms is not None else str(node.attempt.outcome.status)
        lines.append(
            f"{'    ' * node.depth}* {node.attempt.number}, {node.attempt.candidate.change}: {time_ms}, "
            f"{node.visits} visits"
        )
        rows.append(
            {
                "attempt": node.attempt.number,
                "parent": node.parent.attempt.number if node.parent else None,
                "visits": node.visits,
                "value": round(node.value, 4),
                "ms": ms,
            }
        )
    return Record("Summarize", "\n".join(lines) + "\n", {"tree": rows})
