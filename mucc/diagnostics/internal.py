"""Diagnostics for defects of mucc."""

from __future__ import annotations

import os

from mucc.diagnostics.core import Diagnostic


def internal_error(error: Exception, verbose: bool, program: str | None = None) -> Diagnostic:
    """Convert an unexpected exception to a diagnostic; `program` is the program being compiled."""
    notes: tuple[str, ...] = ()
    if verbose or os.environ.get("MUCC_DEBUG"):
        import traceback

        notes = ("".join(traceback.format_exception(error)[-8:]).rstrip(),)
    place = f"{program}: " if program else ""
    return Diagnostic(
        "MU9001",
        f"{place}internal error: {type(error).__name__}: {error}",
        notes=notes,
        helps=(
            "this is a defect of mucc: please report it with the input and the output of `mucc --version`"
            + ("" if notes else "; --verbose shows where it happened"),
        ),
    )
