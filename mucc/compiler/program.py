"""A program's text through the compiler, with every diagnostic knowing the source that it points into."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

from mucc.diagnostics.core import Diagnostic, DiagnosticError, Source

if TYPE_CHECKING:
    from mucc.compiler.driver import Compilation


def compile_source(
    source: Source,
    target: str,
    print_ir: TextIO | None = None,
    print_after: tuple[str, ...] = (),
    *,
    only_check: bool = False,
    dims: Mapping[str, int] | None = None,
    tuned: bool = True,
) -> Compilation:
    """The program down to C++. Raises DiagnosticError with every error in it.

    `dims` are typical values of open dims, for the choice of schedules; with `tuned` measured schedules are
    taken where there are some. With `only_check` nothing can be
    emitted afterwards, and the compiler does not check itself.
    """
    from mucc.compiler.driver import Options, compile_text

    try:
        deep = not only_check
        options = Options(
            target, print_ir, print_after, verify=deep, keep_levels=deep, dims=dims or {}, tuned=tuned
        )
        compilation = compile_text(source, options)
        compilation.sink.raise_if_errors()
    except DiagnosticError as error:
        raise DiagnosticError(placed(error.diagnostics, source)) from error
    return compilation


def check_language(source: Source) -> tuple[Diagnostic, ...]:
    """The warnings about a program of the language. Raises DiagnosticError with every error in it."""
    from mucc.compiler import driver

    try:
        return driver.check_language(source)
    except DiagnosticError as error:
        raise DiagnosticError(placed(error.diagnostics, source)) from error
    except RecursionError:
        raise driver.too_deep() from None


def placed(diagnostics: tuple[Diagnostic, ...], source: Source) -> tuple[Diagnostic, ...]:
    """Diagnostics that know what their spans point into."""
    return tuple(d if d.source else dataclasses.replace(d, source=source) for d in diagnostics)
