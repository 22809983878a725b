"""The JSON of diagnostics as types; `mucc.diagnostics.render` writes and reads it."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class PlaceJson(TypedDict, total=False):
    """A span: offsets in characters, lines and columns from 1. Without its source it has offsets only."""

    file: str
    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int


class LabelJson(TypedDict):
    """A text at a further place."""

    span: PlaceJson | None
    text: str


class FixJson(TypedDict):
    """A replacement of text."""

    span: PlaceJson | None
    replacement: str
    message: str
    applicability: str


class DiagnosticJson(TypedDict):
    """A diagnostic. `--diagnostics=json` prints all fields; between processes those with places are left
    out."""

    code: str
    message: str
    severity: NotRequired[str]
    span: NotRequired[PlaceJson | None]
    label: NotRequired[str]
    labels: NotRequired[list[LabelJson]]
    notes: NotRequired[list[str]]
    helps: NotRequired[list[str]]
    fixes: NotRequired[list[FixJson]]


class CheckJson(TypedDict):
    """A file that `mucc check --json` has checked, with all its errors and warnings."""

    file: str
    diagnostics: list[DiagnosticJson]


class CodeJson(TypedDict):
    """A code as `mucc explain --json` explains it: `status` is the exit status of an error of the code."""

    code: str
    title: str
    explanation: str
    status: int
