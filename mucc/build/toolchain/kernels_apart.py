"""Divide PTX into modules with one kernel each, which ptxas processes assemble at the same time.

With the kernel come all declarations and functions of the module, so that its machine code stays the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mucc.build.toolchain.body_ptx import SpliceError, closing

_ENTRY = re.compile(r"^[ \t]*(?:\.(?:visible|weak)[ \t]+)?\.entry\s+([\w$]+)", re.MULTILINE)


def divide(ptx: str, kernels: Sequence[str]) -> dict[str, str]:
    """Return a module for each of the kernels. Raises SpliceError where the PTX has other kernels."""
    spans = {match[1]: (match.start(), _end(ptx, match.end())) for match in _ENTRY.finditer(ptx)}
    if sorted(spans) != sorted(kernels):
        raise SpliceError(f"the PTX has the kernels {', '.join(spans)} instead of {', '.join(kernels)}")
    return {
        kernel: _without(ptx, [span for name, span in spans.items() if name != kernel]) for kernel in kernels
    }


def _without(ptx: str, spans: Sequence[tuple[int, int]]) -> str:
    starts, ends = (0, *(end for _, end in spans)), (*(start for start, _ in spans), len(ptx))
    return "".join(ptx[start:end] for start, end in zip(starts, ends, strict=True))


def _end(ptx: str, at: int) -> int:
    """Return the offset past the kernel whose name ends at `at`."""
    if end := closing(ptx, at):
        return end
    raise SpliceError("the PTX has a kernel without an end")
