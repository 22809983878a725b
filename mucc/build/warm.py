"""Fill the cache with the parts that most kernels share: skeletons of default schedules, and support code.

A build of such a kernel then takes half a second instead of most of a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
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


WEIGHTS = {"nt": ("w: {t}[{N}, {K}]", "x @ w.T"), "nn": ("w: {t}[{K}, {N}]", "x @ w")}
"""Weights of linear layers, and of those that keep them transposed, as GPT-2's; gradients read such too."""

LAYERS = {
    "activated": (", b: {t}[{N}]", "gelu({p} + b)"),
    "biased": (", b: {t}[{N}], r: {t}[{M}, {N}]", "r + ({p} + b)"),
    "relu": ("", "relu({p})"),
    "residual": (", r: {t}[{M}, {N}]", "r + {p}"),
    "gated": (", u: {t}[{N}, {K}]", "silu({p}) * (x @ u.T)"),
}
"""What the torch backend takes of transformers: further parameters and result, by name.

The function does not matter, nor what is done with the residual: gradients of activations are "residual".
"""

WIDTHS = (
    *((4096, 1024), (1024, 4096), (1024, 1024), (3072, 768), (768, 3072), (768, 768), (5120, 1280)),
    *((14336, 4096), (4096, 14336), (4096, 4096)),
)
ROWS = (8192, 2048, 512)
"""Sizes of layers of published transformers, and rows of their calls; other sizes share their schedules."""


def layers() -> Iterator[tuple[str, str]]:
    """Yield names and texts of layers as `torch.compile(model, backend="mucc")` asks for them."""
    for t, (kind, (w, p)), (name, (more, body)) in product(("bf16", "f16"), WEIGHTS.items(), LAYERS.items()):
        for (n, k), m in product(WIDTHS, ROWS):
            if name == "gated" and (kind == "nn" or n <= k):
                continue
            given = f"x: {t}[{{M}}, {{K}}], {w}{more}".format(t=t, M=m, N=n, K=k)
            text = (
                f"kernel {name}({given}) -> {t}[{m}, {n}] {{\n    return cast({body.format(p=p)}, {t})\n}}\n"
            )
            yield f"{t}-{name}-{kind}-{m}x{n}x{k}", text


def distinct(programs: Iterable[tuple[str, str]], target: str) -> Iterator[tuple[str, str]]:
    """Yield the programs that have a skeleton which none before has, or cannot be compiled."""
    from mucc.compiler.program import compile_source
    from mucc.diagnostics.core import Source

    seen: set[str] = set()
    for name, text in programs:
        try:
            parts = compile_source(Source(name, text), target, verify=False).parts()
        except DiagnosticError:
            yield name, text  # its build reports why
            continue
        new = {s.symbol for s in parts.skeletons} - seen
        if new:
            seen |= new
            yield name, text


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


def warm(target: str, jobs: int | None, reporter: Reporter, purpose: str | None = None) -> None:
    """Fill the cache for a target, with at most `jobs` parallel jobs (None: as the machine allows).

    With the purpose "torch" it is filled with what layers of transformers share, the most frequent first.
    Programs that cannot be built are reported, and do not stop the others.
    """
    from mucc.build.artefact import Request, build
    from mucc.build.pool import Pool

    failed: list[DiagnosticError] = []
    count = 0
    with Pool(jobs, display=reporter.display()) as pool:
        outcomes = pool.map(
            lambda item: build(Request(item[1].encode(), item[0], "so", target), reporter.progress, pool),
            list(distinct(layers(), target) if purpose == "torch" else programs()),
            lambda item: item[0],
        )
        for outcome in outcomes:
            try:
                count += not outcome.get().cached
            except DiagnosticError as error:
                failed.append(error)
    for error in failed:
        reporter.add(error.diagnostics)
    kept = "" if failed and not count else "; what they share is in the cache now"
    lost = f", {len(failed)} could not be built" if failed else ""
    sys.stdout.write(f"built {count} kernels for {target}{lost}{kept}\n")
