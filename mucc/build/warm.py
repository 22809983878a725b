"""Fill the cache with the parts that most kernels share: skeletons of default schedules, and support code.

A build of such a kernel then takes half a second instead of most of a minute.
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
"""Products, with the declaration of the second operand."""

EPILOGUES = {"{p}": "", "relu({p})": "", "relu({p} + b)": ", b: {t}[N]"}
"""The most frequent epilogues, with the declarations of what they read: none, pointwise, bias and pointwise.

The function does not matter, because it is not part of the skeleton."""

DTYPES = {"bf16": ("bf16", "f32"), "f16": ("f16", "f32"), "f32": ("f32",)}
"""Dtypes of operands, with the dtypes of results for each."""


def programs() -> Iterator[tuple[str, str]]:
    """Yield names and texts of programs that together have the most frequent skeletons."""
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
    """Fill the cache for a target, with at most `jobs` parallel jobs (None: as the machine allows).

    Programs that cannot be built are reported, and do not stop the others.
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
