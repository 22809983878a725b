"""The state of a task at a step, read from the store: the same in a run that goes on as in an uninterrupted
one."""

from __future__ import annotations

from collections.abc import Sequence

from mucc.agent.core.analysis import Analysis
from mucc.agent.core.attempts import Attempt
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.proposer import View
from mucc.agent.core.tasks import Task
from mucc.agent.store import Store
from mucc.api.json_types import from_json


class History:
    """The state of a task before step `index`; see `Views`."""

    def __init__(self, store: Store, task: Task, seed: int):
        self._store, self._task, self._seed = store, task, seed
        self.index = 0
        self._analysed: tuple[int, Analysis | None] = -1, None

    def view(self) -> View:
        """Return the view when the step began."""
        steps = self._store.steps_of_attempts(self._task.key)
        return self._view([a for a in self._store.attempts(self._task.key) if steps[a.number] < self.index])

    def up_to(self, number: int) -> View:
        """Return the view before attempt `number` of the step."""
        return self._view([a for a in self._store.attempts(self._task.key) if a.number < number])

    def hypotheses(self) -> Sequence[Hypothesis]:
        """All hypotheses of earlier steps, by number."""
        return [h for _, h in self._store.hypotheses(self._task.key, before=self.index)]

    def _view(self, attempts: Sequence[Attempt]) -> View:
        return View(
            self._task,
            attempts,
            self.hypotheses(),
            self._analysis(),
            [lesson for lesson in self._store.lessons() if lesson.task != self._task.key],
            self._seed,
        )

    def _analysis(self) -> Analysis | None:
        """Return the last analysis before the step."""
        if self._analysed[0] != self.index:
            steps = self._store.steps(self._task.key)
            found = [s for s in steps if s.kind == "Analyze" and s.index < self.index]
            self._analysed = self.index, from_json(Analysis, found[-1].result) if found else None
        return self._analysed[1]
