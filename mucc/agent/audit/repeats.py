"""Calls that are made once more, as they took another path than others.

A solution that counts its calls, to write to a log or to tidy up every so often, does something else in some
of them. One that looks at its inputs does so for such inputs each time.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from mucc.agent.audit.cases import SEEDS, Case
from mucc.agent.audit.observations import Call

TIMES = 3
"""How often a call is repeated whose path differs."""

BETWEEN = 3
"""The most calls on stated inputs before each of these, whose number is drawn."""

BACK, SAME = "back", "same"
"""Names of two calls in a row on the same inputs; those of repeated ones have a number behind."""

Steps = AbstractSet[Hashable]


def steps(call: Call, device: str) -> frozenset[tuple[str, int]]:
    """Return the names and numbers of kernels of a call, on a CPU of PyTorch's operations."""
    kind = "kernel" if device == "cuda" else "op"
    return frozenset((w.name, w.calls) for w in call.work if w.kind == kind)


def differs(paths: Sequence[Steps], stated: Steps) -> bool:
    """Whether all these calls take a step that stated inputs do not cause, or leave out one that they do."""
    shared: set[Hashable] = set(paths[0])
    taken: set[Hashable] = set()
    for path in paths:
        shared &= path
        taken |= path
    return bool(shared - stated) or bool(stated - taken)


def pairs(calls: Sequence[Call]) -> list[tuple[Call, Call]]:
    """Return the pairs of calls on the same inputs: the one in the middle of an audit, and repeated ones."""
    named = {c.case.name: c for c in calls}
    found = [
        (c, named.get(name.replace(BACK, SAME, 1))) for name, c in named.items() if name.startswith(BACK)
    ]
    return [(back, same) for back, same in found if same is not None]


def does_less(back: Call, same: Call) -> bool:
    """Whether a call repeated on the same inputs runs fewer lines or kernels than the call before it."""
    return not set(back.lines) <= set(same.lines) or kernels(same) < kernels(back)


def kernels(call: Call) -> int:
    """Return how many kernels ran in a call."""
    return sum(w.calls for w in call.work if w.kind == "kernel")


def repeated(rng: random.Random, calls: Sequence[Call], device: str) -> Iterator[Case]:
    """Return the calls to make again, and others between, by the calls that were made before any was timed.

    Where calls on stated inputs differ among themselves, no path tells anything of inputs.
    """
    stated = [c for c in calls[1:] if c.case.is_stated and not c.case.name.startswith(SAME)]
    scaled = [c for c in calls if not c.case.is_stated and not c.case.probe]
    lines = {c.lines for c in stated}
    ran = {steps(c, device) for c in stated if c.case.observe}
    odd = [
        c.case
        for c in scaled
        if (len(lines) == 1 and c.lines not in lines)
        or (len(ran) == 1 and c.case.observe and steps(c, device) not in ran)
    ]
    doubts = any(does_less(back, same) for back, same in pairs(calls))
    for n in range(1, TIMES + 1):
        for case in odd:
            yield from _between(rng, f"before {case.name} {n}")
            yield _drawn(rng, replace(case, name=f"{case.name} {n}"))
        if doubts:
            yield from _between(rng, f"before {BACK} {n}")
            back = _drawn(rng, Case(f"{BACK} {n}", 0, slot=1, observe=True))
            yield back
            yield replace(back, name=f"{SAME} {n}", sample=rng.randrange(SEEDS))


def _between(rng: random.Random, name: str) -> Iterator[Case]:
    for n in range(rng.randrange(BETWEEN + 1)):
        yield _drawn(rng, Case(f"{name}, {n}", 0, slot=n % 2))


def _drawn(rng: random.Random, case: Case) -> Case:
    """Return a case with seeds of its own."""
    seed, call, sample = (rng.randrange(SEEDS) for _ in range(3))
    return replace(case, seed=seed, call=call, sample=sample)
