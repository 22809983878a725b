"""Compile or check a source; every diagnostic of the errors raised has its source attached."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

from mucc.diagnostics.core import Diagnostic, DiagnosticError, Source
from mucc.library.dims import Size

if TYPE_CHECKING:
    from mucc.compiler.compilation import Compilation


def compile_source(
    source: Source,
    target: str,
    print_ir: TextIO | None = None,
    print_after: tuple[str, ...] = (),
    *,
    only_check: bool = False,
    dims: Mapping[str, int] | None = None,
    tuned: bool = True,
    verify: bool = True,
    sizes: tuple[Size, ...] = (),
    frontend_warnings: bool = True,
) -> Compilation:
    """Compile a program through all passes. Raises DiagnosticError with all errors in it.

    `dims` are typical values of open dims, for the choice of schedules, and several `sizes` in their place
    give kernels several schedules; with `tuned`, measured schedules take precedence. The IR is verified after
    passes, to find defects of the compiler, with `verify`. With `only_check`, the result has diagnostics
    only, and the IR is not verified. Without `frontend_warnings`, warnings of the frontend are left out.
    """
    from mucc.compiler.compilation import Options
    from mucc.compiler.driver import compile_text

    try:
        deep = not only_check
        options = Options(
            target,
            print_ir,
            print_after,
            verify=deep and verify,
            keep_levels=deep,
            dims=dims or {},
            tuned=tuned,
            sizes=sizes,
            frontend_warnings=frontend_warnings,
        )
        compilation = compile_text(source, options)
        compilation.sink.raise_if_errors()
    except DiagnosticError as error:
        raise DiagnosticError(placed(error.diagnostics, source)) from error
    return compilation


def check_language(source: Source) -> tuple[Diagnostic, ...]:
    """Run the frontend alone, and return warnings. Raises DiagnosticError with all errors."""
    from mucc.compiler import driver

    try:
        return driver.check_language(source)
    except DiagnosticError as error:
        raise DiagnosticError(placed(error.diagnostics, source)) from error
    except RecursionError:
        raise driver.too_deep() from None


def placed(diagnostics: tuple[Diagnostic, ...], source: Source) -> tuple[Diagnostic, ...]:
    """Attach a source to diagnostics without one."""
    return tuple(d if d.source else dataclasses.replace(d, source=source) for d in diagnostics)
