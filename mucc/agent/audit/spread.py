"""How errors of results compare with what other inputs change. Imports torch."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Protocol

from mucc.agent.audit.cases import Case

torch: Any = importlib.import_module("torch")

FEWEST = 4
"""Inputs from which on results say how much they differ."""


class Answered(Protocol):
    """A call with its results, what was to come in float64, and PyTorch's own."""

    case: Case
    got: list[Any]
    want: list[Any]
    own: list[Any]


def spread(answered: Sequence[Answered]) -> dict[str, float]:
    """Return the squared errors of the candidate's results and of PyTorch's, over the squared differences
    that other inputs make; nothing where there are few inputs. Of several results the one with most counts.

    An error that is the same for all inputs does not count. Who reads half of what is summed has errors as
    large as these differences, however small both are against the sum.
    """
    calls = list({a.case.seed: a for a in reversed(answered) if a.got}.values())  # the first for each inputs
    if len(calls) < FEWEST:
        return {}
    found: dict[str, float] = {}
    for n, own in enumerate(calls[0].own):
        if own.dtype not in (torch.float32, torch.float64):
            continue
        want = torch.stack([c.want[n].double() for c in calls])
        got, mine = (torch.stack([v.double() for v in vs]) for vs in _columns(calls, n))
        differs = _around(want)
        if differs > 0 and (share := _around(got - want) / differs) > found.get("candidate", -1.0):
            found = {"candidate": share, "pytorch": _around(mine - want) / differs}
    return found


def _columns(calls: Sequence[Answered], n: int) -> tuple[list[Any], list[Any]]:
    return [c.got[n] for c in calls], [c.own[n] for c in calls]


def _around(values: Any) -> float:
    """Return the sum of squares of what values differ from their means over all calls."""
    return float((values - values.mean(0)).square().sum())
