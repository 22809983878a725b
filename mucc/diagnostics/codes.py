"""The registry of every diagnostic code.

Each area keeps its codes next to it in the numbering: MU0 syntax, MU1 names, types and shapes
(`codes_frontend`); MU2 fusion and stages, MU3 schedules, MU4 targets (`codes_passes`); MU5 command
line, files and toolchain (`codes_toolchain`); MU6 run time (`codes_runtime`); MU9 defects of mucc.

Only `mucc explain`, `mucc docs` and tests load this module: reporting a diagnostic needs no text
but its own.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple


class CodeInfo(NamedTuple):
    """What a code stands for: a one-line title, and an explanation in Markdown."""

    title: str
    explanation: str


def _load() -> dict[str, CodeInfo]:
    codes: dict[str, CodeInfo] = {}
    for area in ("frontend", "passes", "toolchain", "runtime"):
        try:
            module = import_module(f"mucc.diagnostics.codes_{area}")
        except ModuleNotFoundError:
            continue
        for code, (title, explanation) in module.CODES.items():
            if code in codes:
                raise ValueError(f"diagnostic code {code} is registered twice")
            codes[code] = CodeInfo(title, explanation.strip() + "\n")
    return dict(sorted(codes.items()))


CODES: dict[str, CodeInfo] = _load()
"""Every code, in order."""
