"""Ten kernels beside what others make of them, each tuned by its own tuner.

The programs and their rivals lie in examples/against: NAME.mcu, NAME.helion.py, NAME.triton.py,
NAME.cutedsl.py. PyTorch's versions are written by mucc, but for NAME.torch.py.
"""

from __future__ import annotations

from typing import NamedTuple

AGAINST = ("torch", "inductor", "triton", "helion", "cutedsl")
"""Contenders by default: PyTorch call by call, torch.compile with max-autotune, and files beside programs."""


class Case(NamedTuple):
    """A program of examples/against, and the extents that it is timed at."""

    name: str
    dims: dict[str, int]


CASES = (
    Case("linear", {"M": 4096, "N": 4096, "K": 4096}),
    Case("linear_gelu", {"M": 4096, "N": 4096, "K": 4096}),
    Case("linear_residual", {"M": 2048, "N": 4096, "K": 11008}),
    Case("swiglu", {"M": 2048, "N": 11008, "K": 4096}),
    Case("attention", {"B": 32, "M": 4096, "N": 4096}),
    Case("gated", {"M": 8192, "N": 8192}),
    Case("rms_norm", {"M": 8192, "N": 8192}),
    Case("add_rms_norm", {"M": 8192, "N": 8192}),
    Case("layer_norm", {"M": 8192, "N": 4096}),
    Case("softmax", {"M": 8192, "N": 8192}),
)
