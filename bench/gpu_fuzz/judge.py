"""Whether an output is what the reference allows."""

from __future__ import annotations

import importlib
import math
from typing import Any, NamedTuple

from bench.gpu_fuzz.reference import FLOATS, INTEGERS, SATURATING, Bounded, half_step, unknown

torch: Any = importlib.import_module("torch")

ROOM = 2.0
"""By how much bounds are widened: they are of first order."""


class Finding(NamedTuple):
    """What is wrong with an output: how many elements, and the worst of them."""

    output: str
    wrong: int
    elements: int
    place: tuple[int, ...]
    got: float
    expected: float
    allowed: float

    def __str__(self) -> str:
        where = f"{self.output}{list(self.place)}"
        return (
            f"{self.wrong} of {self.elements} elements; {where} is {self.got:.6g}, "
            f"expected {self.expected:.6g} within {self.allowed:.2g}"
        )


def judge(name: str, dtype: str, out: Any, expected: Bounded) -> Finding | None:
    """Compare what was stored with the reference; None where all elements are right."""
    value, error = expected
    if tuple(out.shape) != tuple(value.shape):
        raise ValueError(f"{name} has shape {tuple(out.shape)}, its reference {tuple(value.shape)}")
    out = out.to(torch.float64)
    error = ROOM * error.nan_to_num(math.inf)
    if dtype in INTEGERS:
        low, high = INTEGERS[dtype]
        value = torch.where(torch.isnan(value), 0.0, value).clamp(low, high)
        # An exact integer is stored as it is, a tie may go either way where the value may be off.
        step = torch.where(error > 0, 0.5, (value - value.round()).abs())
    elif dtype in SATURATING:
        value = value.clamp(-FLOATS[dtype].largest, FLOATS[dtype].largest)
        step = half_step(dtype, value.abs() + error)
    else:
        step = half_step(dtype, value.abs() + error)
    allowed = error + step * (1 + 1e-9)
    distance = (out - value).abs()
    good = distance <= allowed
    largest = FLOATS[dtype].largest if dtype in FLOATS else math.inf
    beyond = value.abs() + allowed > largest  # infinite at this dtype, or just not
    good |= beyond & (out.abs() >= largest * 0.99) & (torch.sign(out) == torch.sign(value))
    good |= torch.isnan(value) & torch.isnan(out)
    good |= (value == out) | unknown(expected)
    wrong = int((~good).sum())
    if not wrong:
        return None
    badness = torch.where(
        good, torch.zeros_like(distance), (distance / allowed).nan_to_num(math.inf, math.inf)
    )
    flat = int(badness.reshape(-1).argmax())
    place = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), value.shape)) if value.dim() else ()
    return Finding(
        name, wrong, value.numel(), place, float(out[place]), float(value[place]), float(allowed[place])
    )
