"""Errors in command lines."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mucc.diagnostics.core import Diagnostic, DiagnosticError, did_you_mean


def usage_error(message: str, *helps: str) -> DiagnosticError:
    """Build the error MU5001 about a command line (exit status 2)."""
    return DiagnosticError(Diagnostic("MU5001", message, helps=helps))


def check_known(noun: str, words: Iterable[str], known: Collection[str]) -> None:
    """Raise MU5001 for the first word that is not one of `known`."""
    for word in words:
        if word not in known:
            meant = did_you_mean(word, known)
            helps = (f"did you mean '{meant}'?",) if meant else ()
            raise usage_error(f"there is no {noun} '{word}'", *helps, f"choose from {', '.join(known)}")
