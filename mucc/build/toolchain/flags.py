"""The nvcc flags that determine an artefact; separate from `nvcc.py`, which a cache hit does not load."""

from __future__ import annotations

import os
from typing import Literal

Kind = Literal["so", "ptx", "cubin"]

KINDS: tuple[Kind, ...] = ("so", "ptx", "cubin")
"""The kinds of artefacts."""

HOSTS = {"x86_64-linux-gnu": "x86_64-linux", "aarch64-linux-gnu": "sbsa-linux"}
"""The hosts that libraries are built for, with the names of their folders in CUDA toolkits."""

COMMON = ("-std=c++17", "-O3", "-DNDEBUG", "--expt-relaxed-constexpr")
"""NDEBUG is required: with CUTLASS's device asserts, ptxas serialises wgmma."""

SPLIT = "--split-compile=4"
"""The flag of NVRTC and ptxas with which several threads compile the kernels of a source.

The number is fixed, since one thread alone numbers registers in another way.
"""


def flags(kind: Kind, target: str, *, lines: bool = False) -> list[str]:
    """Return the nvcc flags that determine an artefact, without paths. `target` is such as `sm_90a`.

    With `lines`, machine code has the lines that it comes from.
    """
    virtual = target.replace("sm_", "compute_")
    own = [*COMMON, *(["-lineinfo"] if lines else [])]
    if kind == "ptx":
        return [*own, f"-gencode=arch={virtual},code={virtual}", "-ptx"]
    codes = f"[{target},{virtual}]" if kind == "so" and is_portable(target) else target
    common = [*own, f"-gencode=arch={virtual},code={codes}", "-Xptxas=-v"]
    if kind == "cubin":
        return [*common, "-cubin"]
    return [*common, "-Xcompiler=-fPIC,-fvisibility=hidden", "-shared", "-cudart", "static"]


def is_portable(target: str) -> bool:
    """Whether code for a target also runs on later GPUs, through PTX in the library."""
    return target[-1:].isdigit()


def ambient_flags() -> tuple[str, ...]:
    """Return the flags that nvcc takes from the environment, which are part of cache keys."""
    return tuple(os.environ.get(n, "") for n in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"))
