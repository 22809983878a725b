"""Diagnostics: errors as data. Built where the fact is known, rendered in one place.

This package is a leaf: it imports nothing else of mucc, so that every layer may use it.

* `core`: `Span`, `Source`, `Diagnostic`, `DiagnosticError`, `DiagnosticSink`
* `codes`: the registry of every code, with its one-line title
* `render`: text and JSON forms
* `explain`: the long texts behind `mucc explain CODE`
"""

from mucc.diagnostics.core import (
    Applicability,
    Diagnostic,
    DiagnosticError,
    DiagnosticSink,
    ExitStatus,
    Fix,
    Severity,
    Source,
    Span,
    did_you_mean,
    near_spelling,
)

__all__ = [
    "Applicability",
    "Diagnostic",
    "DiagnosticError",
    "DiagnosticSink",
    "ExitStatus",
    "Fix",
    "Severity",
    "Source",
    "Span",
    "did_you_mean",
    "near_spelling",
]
