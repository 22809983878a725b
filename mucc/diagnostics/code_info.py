"""The type of an entry in the registry of diagnostic codes."""

from __future__ import annotations

from typing import NamedTuple

from mucc.diagnostics.core import ExitStatus


class CodeInfo(NamedTuple):
    """An entry: a one-line title, an explanation in Markdown, and the exit status of an error of the code."""

    title: str
    explanation: str
    status: ExitStatus = ExitStatus.PROGRAM
