"""The compiler as functions: a program at any level, and why its schedules were chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.api import names_from

if TYPE_CHECKING:
    from mucc.compiler.compilation import Compilation, Options
    from mucc.compiler.driver import check_language, compile_text, front_text
    from mucc.compiler.explain_schedule import Explanation, explain
    from mucc.runtime.build import CompileError, MuccWarning, check, compile

__all__ = [
    "Compilation",
    "CompileError",
    "Explanation",
    "MuccWarning",
    "Options",
    "check",
    "check_language",
    "compile",
    "compile_text",
    "explain",
    "front_text",
]

__getattr__ = names_from(
    __name__,
    {
        "mucc.compiler.compilation": ("Compilation", "Options"),
        "mucc.compiler.driver": ("check_language", "compile_text", "front_text"),
        "mucc.compiler.explain_schedule": ("Explanation", "explain"),
        "mucc.runtime.build": ("CompileError", "MuccWarning", "check", "compile"),
    },
)
