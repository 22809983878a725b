"""Errors in command lines."""

from __future__ import annotations

from mucc.diagnostics.core import Diagnostic, DiagnosticError


def usage_error(message: str, *helps: str) -> DiagnosticError:
    """Build the error MU5001 about a command line (exit status 2)."""
    return DiagnosticError(Diagnostic("MU5001", message, helps=helps))
