"""Errors and warnings as values, and their texts.

try:
    compile_text(source)
except DiagnosticError as error:
    for diagnostic in error.diagnostics:
        print(render_text(diagnostic))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.api import names_from

if TYPE_CHECKING:
    from mucc.diagnostics.codes import exit_status
    from mucc.diagnostics.core import (
        Diagnostic,
        DiagnosticError,
        DiagnosticSink,
        ExitStatus,
        Fix,
        Severity,
        Source,
        Span,
        did_you_mean,
    )
    from mucc.diagnostics.internal import internal_error
    from mucc.diagnostics.render import from_json, render_text, to_json
    from mucc.diagnostics.usage import usage_error

__all__ = [
    "Diagnostic",
    "DiagnosticError",
    "DiagnosticSink",
    "ExitStatus",
    "Fix",
    "Severity",
    "Source",
    "Span",
    "did_you_mean",
    "exit_status",
    "from_json",
    "internal_error",
    "render_text",
    "to_json",
    "usage_error",
]

__getattr__ = names_from(
    __name__,
    {
        "mucc.diagnostics.core": (
            "Diagnostic",
            "DiagnosticError",
            "DiagnosticSink",
            "ExitStatus",
            "Fix",
            "Severity",
            "Source",
            "Span",
            "did_you_mean",
        ),
        "mucc.diagnostics.codes": ("exit_status",),
        "mucc.diagnostics.internal": ("internal_error",),
        "mucc.diagnostics.render": ("from_json", "render_text", "to_json"),
        "mucc.diagnostics.usage": ("usage_error",),
    },
)
