"""Shrink a program that fails: fewer and smaller choices that fail in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from bench.gpu_fuzz.trying import Outcome
from bench.gpu_fuzz.workers import Crew, Task

Attempt = Callable[[Sequence[Sequence[int]]], list[Outcome]]


def candidates(choices: Sequence[int]) -> Iterator[list[int]]:
    """Simpler lists of choices, the boldest first: without a run of them, with zeros, with less."""
    known = list(choices)
    size = max(len(known) // 2, 1)
    while size:
        for start in range(0, len(known), size):
            yield known[:start] + known[start + size :]
            if any(known[start : start + size]):
                yield known[:start] + [0] * len(known[start : start + size]) + known[start + size :]
        size //= 2
    for place, number in enumerate(known):
        for smaller in {number // 2, number - 1} - {number, 0, -1}:
            yield [*known[:place], smaller, *known[place + 1 :]]


def same(a: Outcome, b: Outcome) -> bool:
    """Whether two programs fail in the same way."""
    return (a.kind, a.code) == (b.kind, b.code)


def reduce(outcome: Outcome, attempt: Attempt, width: int, until: float) -> Outcome:
    """The simplest program found that fails as `outcome` does, before a time of `time.monotonic`.

    `attempt` tries several lists of choices at once, `width` of them at best.
    """
    best = outcome
    seen = {best.text}
    while time.monotonic() < until:
        for batch in _batches(candidates(best.choices), width):
            if time.monotonic() >= until:
                return best
            better = [
                o
                for o in attempt(batch)
                if same(o, outcome) and o.text not in seen and _size(o) < _size(best)
            ]
            if better:
                best = min(better, key=_size)
                seen.add(best.text)
                break
        else:
            return best
    return best


def _size(outcome: Outcome) -> tuple[int, int, int]:
    return (len(outcome.text), len(outcome.choices), sum(outcome.choices))


def _batches(lists: Iterator[list[int]], width: int) -> Iterator[list[list[int]]]:
    batch: list[list[int]] = []
    for one in lists:
        batch.append(one)
        if len(batch) == width:
            yield batch
            batch = []
    if batch:
        yield batch


def by_crew(crew: Crew, until: float) -> Attempt:
    """An `Attempt` by worker processes."""

    def attempt(lists: Sequence[Sequence[int]]) -> list[Outcome]:
        left = [Task(given=tuple(one)) for one in lists]
        found: list[Outcome] = []
        crew.run(lambda: left.pop(0) if left else None, lambda _task, outcome: found.append(outcome), until)
        return found

    return attempt
