"""Limit the size of the page of a long run."""

from __future__ import annotations

from collections.abc import Sequence

from mucc.agent.report.reading import TaskRun

CHARACTERS = 4_200_000
"""Of a page, near which texts are cut short."""

AN_ATTEMPT = 2_200
"""Characters that an attempt takes beside its texts."""

ATTEMPTS = 1_200
"""In a page at the most; each task has its part."""


class Room:
    """The attempts that a page shows, and how many characters it has left for texts: the more are used, the
    shorter is what is still put in."""

    def __init__(self, tasks: Sequence[TaskRun], characters: int = CHARACTERS):
        part = max(ATTEMPTS // max(len(tasks), 1), 4)
        self._shown = {task.place: selection(task, part) for task in tasks}
        attempts = sum(map(len, self._shown.values()))
        self.left = max(characters - AN_ATTEMPT * attempts, characters // 10)

    def cut(self, text: str, most: int) -> str:
        """Return a text, or its beginning and a word on how much is missing."""
        most = max(min(most, self.left // 40), 80)
        cut = text if len(text) <= most else f"{text[:most]} … ({len(text) - most} characters more)"
        # Some are four or five characters long once they are escaped.
        self.left -= len(cut) + 4 * sum(map(cut.count, "<>&\"'"))
        return cut

    def shows(self, task: TaskRun, number: int) -> bool:
        """Whether an attempt is in the page."""
        return number in self._shown[task.place]


def selection(task: TaskRun, most: int) -> set[int]:
    """Return the attempts of a task to show where there is no room for all: the best with those that it was
    made from, then those that were the best for a while, then the others in order.
    """
    if len(task.attempts) <= most:
        return set(task.by_number)
    order: list[int] = []
    one = task.best
    while one is not None and one.number not in order:
        order.append(one.number)
        one = task.by_number.get(one.candidate.parent) if one.candidate.parent is not None else None
    lowest: float | None = None
    for attempt in task.attempts:
        if attempt.ms is not None and (lowest is None or attempt.ms < lowest):
            lowest = attempt.ms
            order.append(attempt.number)
    order += task.by_number
    return set(list(dict.fromkeys(order))[:most])
