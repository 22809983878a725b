"""What is known of a task at a step: the same when a run goes on as when it went on undisturbed."""

from __future__ import annotations

from collections.abc import Sequence

from mucc.agent.core.analysis import Analysis
from mucc.agent.core.attempts import Attempt
from mucc.agent.core.codec import from_json
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.proposing import View
from mucc.agent.core.tasks import Task
from mucc.agent.store import Store


class History:
    """The state of a task before step `index`; see `Views`."""

    def __init__(self, store: Store, task: Task, seed: int):
        self._store, self._task, self._seed = store, task, seed
        self.index = 0
        self._analysed: tuple[int, Analysis | None] = -1, None

    def view(self) -> View:
        """What was known when the step began."""
        steps = self._store.steps_of_attempts(self._task.key)
        return self._view([a for a in self._store.attempts(self._task.key) if steps[a.number] < self.index])

    def up_to(self, number: int) -> View:
        """What was known before attempt `number` of the step."""
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
        """What the last profile before the step said."""
        if self._analysed[0] != self.index:
            steps = self._store.steps(self._task.key)
            found = [s for s in steps if s.kind == "Analyze" and s.index < self.index]
            self._analysed = self.index, from_json(Analysis, found[-1].result) if found else None
        return self._analysed[1]
