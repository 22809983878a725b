"""How `mucc run` draws inputs and judges outputs. NumPy and torch arrays both will do (`xp`: the library)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mucc.signature import KernelInfo

ROUNDOFF = {"bf16": 2.0**-9, "f16": 2.0**-12, "f32": 2.0**-25, "e4m3": 2.0**-4, "e5m2": 2.0**-3}
"""Half the relative distance of neighbouring numbers: the error of one rounding to nearest at most."""

UNIT = {"s8": 1.0, "u8": 1.0, "s32": 0.0}
"""By how much an integer may be off where what was rounded lay between two. s32 holds exact sums."""

SPREAD = {"s4": 3.0, "u4": 6.0, "s8": 16.0, "u8": 16.0, "s32": 1000.0}
"""The standard deviation that random integers are drawn with."""

COMPUTE_ROUNDOFF = 2.0**-11
"""What f32 inputs lose when the tensor cores read them as tf32, and what fast tanh and exp lose."""

NEGLIGIBLE = 1e-20
"""What may stand where a whole reference is 0: gelu(-50) is 0 in float64, and -1e-22 in a kernel."""


def tolerance(dtype: str) -> float:
    """The largest relative Frobenius error that an output of this dtype may have.

    Four roundings: of the output, of two operands, of a stored intermediate; each at most the coarser of
    the dtype's roundoff and that of the arithmetic. 7.8e-3 for bf16, 2.0e-3 for f16 and f32. One rounding of
    8-bit floats, since only few numbers lie so close to a tie that they round the other way: 6.3e-2 for e4m3.
    Integers: as bf16.
    """
    if dtype in ("e4m3", "e5m2"):
        return ROUNDOFF[dtype]
    return 4 * max(ROUNDOFF["bf16" if dtype in UNIT else dtype], COMPUTE_ROUNDOFF)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One output against its reference.

    `relative` is ‖out − ref‖ / ‖ref‖ (Frobenius). `worst` is the largest |out − ref| / (|ref| + rms(ref)):
    it shows the single wrong element that a norm over millions hides, and may be four times the tolerance,
    since the largest of many roundings is some sigmas from their mean; of 8-bit integers one unit of each
    error does not count for it. `wrong` counts elements that are not
    finite where the reference is, or the other way round.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    relative: float
    worst: float
    wrong: int

    @property
    def tolerance(self) -> float:
        return tolerance(self.dtype)

    @property
    def good(self) -> bool:
        return not self.wrong and self.relative <= self.tolerance and self.worst <= 4 * self.tolerance


def compare(name: str, dtype: str, out: Any, ref: Any, xp: Any) -> Verdict:
    """Judge an output (float64 values of what the kernel wrote) by the reference of the same shape.

    Where the reference is NaN or infinite, in the output's dtype, the output must be so too.
    """
    shape = tuple(int(n) for n in out.shape)
    if shape != tuple(int(n) for n in ref.shape):
        raise ValueError(f"output {name} has shape {shape}, its reference {tuple(ref.shape)}")
    finite = xp.isfinite(ref)
    same = (finite & xp.isfinite(out)) | (xp.isnan(ref) & xp.isnan(out)) | (ref == out)
    wrong = int((~same).sum())
    zero = xp.zeros_like(ref)
    usable = finite & xp.isfinite(out)
    ref = xp.where(usable, ref, zero)
    error = xp.abs(xp.where(usable, out, zero) - ref)
    norm, error_norm = float((ref * ref).sum()) ** 0.5, float((error * error).sum()) ** 0.5
    if norm == 0.0:
        none = error_norm == 0.0 or float(error.max()) <= NEGLIGIBLE
        relative = worst = 0.0 if none else math.inf
    else:
        relative = error_norm / norm
        excess = error - xp.minimum(error, xp.full_like(error, UNIT.get(dtype, 0.0)))
        worst = float((excess / (xp.abs(ref) + norm / math.prod(shape) ** 0.5)).max())
    return Verdict(name, dtype, shape, relative, worst, wrong)


def input_scales(info: KernelInfo, dims: Mapping[str, int]) -> dict[str, float]:
    """What standard normal numbers are multiplied by for each input tensor, so that outputs are about 1.

    Of a product x @ w.T of K terms one factor is shrunk by about 1/sqrt(K). The weights, which are shrunk,
    are the matrices after the first that have a dim which no output has; a residual or a bias keeps its
    size. The factor is (rows · columns)^(-1/4), so that a chain of layers D -> H -> D keeps its size as
    well. Integers are not shrunk: few would be left that are not 0.
    """
    kept = {e for a in info.outputs for e in a.shape}
    scales: dict[str, float] = {}
    seen_matrix = False
    for arg in info.inputs:
        if arg.role != "input":
            continue
        matrix = len(arg.shape) >= 2
        weight = matrix and seen_matrix and any(e not in kept for e in arg.shape)
        seen_matrix = seen_matrix or matrix
        scales[arg.name] = math.prod(arg.extents(dims)[-2:]) ** -0.25 if weight else 1.0
        if arg.dtype in SPREAD:
            scales[arg.name] = SPREAD[arg.dtype]
    return scales
