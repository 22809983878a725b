"""Errors about the command line."""

from __future__ import annotations

from mucc.diagnostics.core import Diagnostic, DiagnosticError


def usage_error(message: str, *helps: str) -> DiagnosticError:
    """An error about the command line: MU5001, exit status 2."""
    return DiagnosticError(Diagnostic("MU5001", message, helps=helps))
