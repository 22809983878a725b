"""The values that a diagnostic is made of."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cached_property


class Severity(StrEnum):
    """The severity of a diagnostic. Only errors fail a run."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class ExitStatus(IntEnum):
    """Exit statuses of every mucc command."""

    GOOD = 0
    PROGRAM = 1
    USAGE = 2
    TOOLCHAIN = 3
    INTERNAL = 4
    REJECTED = 5
    """`mucc-agent audit`: what claims to replace a module does not count."""
    INCONCLUSIVE = 6
    """`mucc-agent audit`: something disturbed, and nothing can be said."""


@dataclass(frozen=True, order=True)
class Span:
    """A half-open range of character offsets into a source text."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """Return the smallest span that covers both spans."""
        return Span(min(self.start, other.start), max(self.end, other.end))


@dataclass(frozen=True)
class Source:
    """A source text and its name in messages (a path, or `<string>`)."""

    name: str
    text: str

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def line_col(self, offset: int) -> tuple[int, int]:
        """Convert a character offset to a line and a column, from 1."""
        line = bisect.bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def offset(self, line: int, col: int) -> int:
        """Convert a line and a column, from 1, to a character offset, clamped to the text."""
        line = min(max(line, 1), len(self._line_starts))
        return min(self._line_starts[line - 1] + max(col, 1) - 1, len(self.text))

    def line_text(self, line: int) -> str:
        """Return the text of a line (from 1) without its line end; empty past the last line."""
        if not 1 <= line <= len(self._line_starts):
            return ""
        start = self._line_starts[line - 1]
        end = self.text.find("\n", start)
        return self.text[start : len(self.text) if end < 0 else end]


class Applicability(StrEnum):
    """The applicability of a fix by tools."""

    MACHINE_APPLICABLE = "machine-applicable"
    """Tools may apply the fix without asking, because its meaning is certain."""
    MAYBE_INCORRECT = "maybe-incorrect"
    """Tools must ask or check the result: the fix is valid, but possibly not what was meant."""


@dataclass(frozen=True)
class Fix:
    """A text edit that fixes the problem: replace `span` by `replacement`."""

    span: Span
    replacement: str
    message: str = ""
    applicability: Applicability = Applicability.MAYBE_INCORRECT


LONGEST_LINE = 1000
"""The most characters of a line in a message, because quoted text may have any length."""


def bounded(text: str) -> str:
    """Shorten long lines of a text in the middle."""
    if len(text) <= LONGEST_LINE:
        return text
    end = LONGEST_LINE // 2 - 20
    return "\n".join(
        line if len(line) <= LONGEST_LINE else f"{line[:end]} ... {len(line)} characters ... {line[-end:]}"
        for line in text.split("\n")
    )


@dataclass(frozen=True)
class Diagnostic:
    """A diagnostic: an error, a warning or a note.

    `notes` are facts, `helps` are advice, `fixes` are edits, which a tool may apply where they say so.
    `labels` are further spans with a short text each. `span` is None where no place in a source is to blame.
    Long lines of texts are `bounded`.
    """

    code: str
    message: str
    span: Span | None = None
    severity: Severity = Severity.ERROR
    label: str = ""
    labels: tuple[tuple[Span, str], ...] = ()
    notes: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()
    fixes: tuple[Fix, ...] = ()
    source: Source | None = None

    def __post_init__(self) -> None:
        for name in ("message", "label"):
            if len(text := getattr(self, name)) > LONGEST_LINE:
                object.__setattr__(self, name, bounded(text))
        for name in ("notes", "helps"):
            texts: tuple[str, ...] = getattr(self, name)
            if any(len(text) > LONGEST_LINE for text in texts):
                object.__setattr__(self, name, tuple(map(bounded, texts)))
        if any(len(text) > LONGEST_LINE for _, text in self.labels):
            object.__setattr__(self, "labels", tuple((span, bounded(text)) for span, text in self.labels))

    def __str__(self) -> str:
        return f"{self.severity}[{self.code}]: {self.message}"


class DiagnosticError(Exception):
    """Work cannot go on; carries all diagnostics so far."""

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]):
        items = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        self.diagnostics = items
        super().__init__("\n".join(str(d) for d in items))


MOST = 100
"""Diagnostics of one program that are reported; who has mended these runs it again."""


@dataclass
class DiagnosticSink:
    """A collector of diagnostics, so that one run can report several errors."""

    source: Source | None = None
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    _emitted: set[Diagnostic] = field(default_factory=set[Diagnostic], repr=False, compare=False)
    """All that were ever added, some of which were taken back."""
    _failed: bool = field(default=False, repr=False, compare=False)
    """Whether an error was ever added."""

    def emit(self, diagnostic: Diagnostic) -> None:
        """Add one diagnostic; an equal one is not added twice.

        Raises `DiagnosticError` with all of them, and MU0015, once there are too many.
        """
        if diagnostic in self._emitted and diagnostic in self.diagnostics:
            return
        self._failed |= diagnostic.severity is Severity.ERROR
        if len(self.diagnostics) >= MOST and self._failed and self.has_errors:
            message = f"more than {MOST} problems: the rest is left out"
            raise DiagnosticError((*self.diagnostics, Diagnostic("MU0015", message, severity=Severity.NOTE)))
        self._emitted.add(diagnostic)
        self.diagnostics.append(diagnostic)

    @property
    def has_errors(self) -> bool:
        """Whether one of the diagnostics is an error."""
        return any(d.severity is Severity.ERROR for d in self.diagnostics)

    def raise_if_errors(self) -> None:
        """Raise `DiagnosticError` with all diagnostics if one of them is an error."""
        if self.has_errors:
            raise DiagnosticError(self.diagnostics)


CLOSE = 0.6
"""The share of letters in common from which a candidate is close to a word."""


def did_you_mean(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate closest to `word`; None if none is close.

    Words of a program are compared by `near_spelling`, which is stricter.
    """
    import difflib

    # A longer word is close to no candidate, but would be indexed for each of them.
    near = [c for c in candidates if CLOSE * (len(word) + len(c)) <= 2 * min(len(word), len(c))]
    found = difflib.get_close_matches(word, near, n=1, cutoff=CLOSE) if near else []
    return found[0] if found else None


LONG = 8
"""The length from which a word may have two typing errors."""


def near_spelling(word: str, candidates: Iterable[str]) -> str | None:
    """Return the only candidate that differs from `word` by typing errors; None for none or several.

    A slip is a letter too many, too few, wrong, or two that changed places; the first letter is right, and so
    are digits. Upper and lower case and underscores do not count.
    """
    plain = _plain(word)
    best: list[str] = []
    least = 2 if len(plain) >= LONG else 1
    for candidate in dict.fromkeys(candidates):
        other = _plain(candidate)
        if plain[:1] != other[:1] or abs(len(plain) - len(other)) > least:
            continue
        slips = _slips(plain, other)
        if slips < least:
            best, least = [], slips
        if slips == least:
            best.append(candidate)
    return best[0] if len(best) == 1 else None


def _plain(word: str) -> str:
    return word.replace("_", "").lower()


def _slips(a: str, b: str) -> int:
    """Compute the edit distance with transpositions of neighbours (Damerau-Levenshtein)."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, last, row = row, before, [i]
        for j, y in enumerate(b, 1):
            wrong = 0 if x == y else 2 if x.isdigit() and y.isdigit() else 1
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + wrong)
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
