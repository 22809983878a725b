"""Compiles ahead of time what most kernels share: skeletons of the default schedules, and the support code.

After that a build of such a kernel takes half a second instead of most of a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

from mucc.diagnostics.core import DiagnosticError

if TYPE_CHECKING:
    from mucc.cli.reporting import Reporter

OPERANDS = {"x @ w": "w: {t}[K, N]", "x @ w.T": "w: {t}[N, K]"}
"""Products, and how their second operand is declared."""

EPILOGUES = {"{p}": "", "relu({p})": "", "relu({p} + b)": ", b: {t}[N]"}
"""What follows a product most often: nothing, pointwise work, a bias with pointwise work; and the declaration
of what it reads. Which function it is does not matter: it is no part of a skeleton."""

DTYPES = {"bf16": ("bf16", "f32"), "f16": ("f16", "f32"), "f32": ("f32",)}
"""Dtypes of operands, each with those of the result."""


def programs() -> Iterator[tuple[str, str]]:
    """Names and texts of programs whose skeletons, taken together, are what is worth having."""
    for (t, results), (name, (p, w)), (i, (epilogue, extra)) in product(
        DTYPES.items(), zip(("nn", "nt"), OPERANDS.items(), strict=True), enumerate(EPILOGUES.items())
    ):
        for result in results:
            multiple = 4 if t == "f32" else 8
            text = (
                f"kernel k[M, N, K](x: {t}[M, K], {w.format(t=t)}{extra.format(t=t)}) -> {result}[M, N]\n"
                f"    where K % {multiple} == 0, N % {multiple} == 0\n"
                f"{{\n    return cast({epilogue.format(p=p)}, {result})\n}}\n"
            )
            yield f"{t}-{name}-{i}-{result}", text


def warm(target: str, jobs: int | None, reporter: Reporter) -> None:
    """Fill the cache for a target, with at most so many jobs at a time (none: as the machine allows).

    What cannot be built is reported, and does not keep the rest.
    """
    from mucc.build.artefact import Request, build
    from mucc.build.pool import Pool

    failed: list[DiagnosticError] = []
    count = 0
    with Pool(jobs, display=reporter.display()) as pool:
        outcomes = pool.map(
            lambda item: build(Request(item[1].encode(), item[0], "so", target), reporter.progress, pool),
            list(programs()),
            lambda item: item[0],
        )
        for outcome in outcomes:
            try:
                count += not outcome.get().cached
            except DiagnosticError as error:
                failed.append(error)
    for error in failed:
        reporter.add(error.diagnostics)
    sys.stdout.write(f"built {count} kernels for {target}; what they share is in the cache now\n")
