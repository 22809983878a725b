"""MI, the flat baseline: measure, implement, always from the best program."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from mucc.agent.core.attempts import Attempt
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.strategy import Budget, Nominate, Pursue, Step, Views
from mucc.agent.search.common import parent_of


@dataclass(frozen=True)
class Constants:
    """`patience`: hypotheses in a row that may cost no attempt before the search is over."""

    patience: int = 3


class Mi:
    """Greedy: one hypothesis after another, as the proposer names them, each repaired until its attempts are
    spent."""

    name = "mi"
    Constants = Constants

    def __init__(self, budget: Budget, constants: Constants = Constants()):  # noqa: B008
        self.budget, self.constants = budget, constants

    def steps(self, views: Views) -> Generator[Step, Any, None]:
        """Yield the steps for one task."""
        idle = 0
        left = self.budget.most
        while left > 0 and idle < max(self.constants.patience, 1):
            found: list[tuple[int, Hypothesis]] = yield Nominate(parent_of(views.view()).number, 1)
            if not found:
                return
            made: list[Attempt] = yield Pursue((found[0][0],), min(self.budget.attempts, left))
            spent = sum(a.spent for a in made)
            left -= spent
            idle = 0 if spent else idle + 1
