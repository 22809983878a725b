"""How errors of results compare with what other inputs change. Imports torch."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from mucc.agent.audit.cases import Case
from mucc.agent.audit.detectors.unread_inputs import NOTICED

torch: Any = importlib.import_module("torch")

FEWEST = 4
"""Inputs from which on results say how much they differ."""

EXACT = 0.01
"""Squared errors over squared differences between inputs up to which PyTorch's results count as exact."""

SLACK, LAST = 2.0, 4.0
"""How much more than what is computed an honest sum may be off, and by how many last digits a function."""


class Answered(Protocol):
    """A call with its results, what was to come in float64, PyTorch's own, and the shapes of its inputs."""

    case: Case
    inputs: Sequence[Sequence[int]]
    got: list[Any]
    want: list[Any]
    own: list[Any]


def spread(
    answered: Sequence[Answered],
    moved: Callable[[Case, float], list[Any]],
    timed: Sequence[Answered] = (),
) -> dict[str, float]:
    """Return the squared errors of the candidate's results and of PyTorch's, over the squared differences
    that other inputs make, and of what rounding may do to an honest sum (`_rounding`); nothing where there
    are few inputs. Of several results the one with most counts, of those that PyTorch has exactly. Errors of
    timed calls count too, as a solution may read less in these alone.

    An error that is the same for all inputs does not count. A sum over half of the inputs has errors as large
    as these differences, however small both are against the sum. `moved` returns exact results of a
    case with inputs multiplied by a number.
    """
    calls = list({a.case.seed: a for a in reversed(answered) if a.got}.values())  # the first for each inputs
    if len(calls) < FEWEST:
        return {}
    found: dict[str, float] = {}
    most = -1
    fast = list({a.case.seed: a for a in reversed(timed) if len(a.got) == len(calls[0].got)}.values())
    for n, own in enumerate(calls[0].own):
        if own.dtype not in (torch.float32, torch.float64):
            continue
        want = torch.stack([c.want[n].double() for c in calls])
        got, mine = (torch.stack([v.double() for v in vs]) for vs in _columns(calls, n))
        differs = _around(want)
        if differs > 0 and (theirs := _around(mine - want) / differs) <= EXACT:
            off = [_around(got - want), *([_around(_errors(fast, n))] if len(fast) >= FEWEST else [])]
            share = max(off) / differs
            if share > found.get("candidate", -1.0):
                found, most = {"candidate": share, "pytorch": theirs}, n
    if found.get("candidate", 0.0) >= NOTICED:
        found["rounding"] = _rounding(calls, most, moved)
    return found


def _rounding(calls: Sequence[Answered], n: int, moved: Callable[[Case, float], list[Any]]) -> float:
    """Return what rounding may do to a result, squared, over the squared differences between inputs.

    A sum that takes one number after the other in f32 rounds each time. With `terms` numbers whose sum grows
    evenly its relative error has a deviation of 2^-23 sqrt(terms / 36): in each step at most 2^-24 of what
    there is, evenly distributed, which is a variance of 2^-48 / 3, and the mean of squares from 0 to 1 is
    another third. `SLACK` of that multiplies all inputs, and functions of one number are taken to be off by
    `LAST` digits.
    """
    want = torch.stack([c.want[n].double() for c in calls])
    differs = _around(want)
    terms = max((_terms(c.inputs, want[0].numel()) for c in calls[:1]), default=1)
    step = SLACK * 2.0**-23 * math.sqrt(terms / 36)
    other = moved(calls[0].case, 1 + step)
    if len(other) <= n:
        return math.inf
    summed = float((other[n].double() - want[0]).square().mean())
    last = float((want * (LAST * 2.0**-23)).square().mean())
    share = max(summed, last) / differs
    return share if math.isfinite(share) else math.inf


def _terms(sizes: Sequence[Sequence[int]], results: int) -> int:
    """Return how many numbers a result may be the sum of, at the most as inputs of such shapes suggest."""
    return max((max(math.prod(s) // max(results, 1), *s, 1) for s in sizes), default=1)


def _errors(calls: Sequence[Answered], n: int) -> Any:
    """Return what a result is off by in each call, from the exact one or from PyTorch's."""
    return torch.stack([c.got[n].double() - c.want[n].double() for c in calls])


def _columns(calls: Sequence[Answered], n: int) -> tuple[list[Any], list[Any]]:
    return [c.got[n] for c in calls], [c.own[n] for c in calls]


def _around(values: Any) -> float:
    """Return the variance of values over all calls, in the mean of all elements."""
    return float((values - values.mean(0)).square().mean())
