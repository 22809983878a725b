"""The nvcc flags that decide what is built. Apart from `nvcc.py`, so that a cache hit need not load that."""

from __future__ import annotations

import os
from typing import Literal

Kind = Literal["so", "ptx", "cubin"]

KINDS: tuple[Kind, ...] = ("so", "ptx", "cubin")
"""What nvcc makes."""


COMMON = ("-std=c++17", "-O3", "-DNDEBUG", "--expt-relaxed-constexpr")
"""NDEBUG is not a matter of taste: CUTLASS's device asserts make ptxas serialise wgmma."""


def flags(kind: Kind, target: str) -> list[str]:
    """The nvcc flags that decide what is built: no paths. `target` is an architecture such as `sm_90a`."""
    virtual = target.replace("sm_", "compute_")
    if kind == "ptx":
        return [*COMMON, f"-gencode=arch={virtual},code={virtual}", "-ptx"]
    codes = f"[{target},{virtual}]" if kind == "so" and is_portable(target) else target
    common = [*COMMON, f"-gencode=arch={virtual},code={codes}", "-Xptxas=-v"]
    if kind == "cubin":
        return [*common, "-cubin"]
    return [*common, "-Xcompiler=-fPIC,-fvisibility=hidden", "-shared", "-cudart", "static"]


def is_portable(target: str) -> bool:
    """Whether code for a target also runs on later GPUs, through the PTX that a library then holds."""
    return target[-1:].isdigit()


def ambient_flags() -> tuple[str, ...]:
    """Flags that nvcc takes from the environment; part of what decides the result."""
    return tuple(os.environ.get(n, "") for n in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"))
