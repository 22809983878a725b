"""Source locations and error reporting of IR generation."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, IntAttr, LocationAttr, StringAttr
from xdsl.ir import Attribute

from mucc.diagnostics.core import (
    Applicability,
    Diagnostic,
    DiagnosticSink,
    Fix,
    Severity,
    Source,
    Span,
    near_spelling,
)
from mucc.dialects.mu.rules import TypeRuleError
from mucc.dialects.mu.types import TensorType, dtype_name

Labels = tuple[tuple[Span, str], ...]


class Context:
    """The source of a program, and the sink of its diagnostics, during IR generation."""

    def __init__(self, sink: DiagnosticSink):
        self.sink = sink
        self.source = sink.source or Source("<string>", "")
        self.errors = 0
        self._name = StringAttr(self.source.name)
        self._calls: list[tuple[Span, str]] = []  # the calls being inlined, and the functions that they call
        self._callers: list[LocationAttr] = []  # the locations of these calls
        self._places: dict[int, FileLineColLoc] = {}
        self._inlined: set[tuple[str, str, Span]] = set()

    @contextmanager
    def called(self, span: Span, function: str) -> Generator[None]:
        """Report errors, and locate operations, as those of a function that is called at `span`."""
        self._callers.append(self.location(span))
        self._calls.append((span, function))
        try:
            yield
        finally:
            self._calls.pop()
            self._callers.pop()

    @property
    def is_inlined(self) -> bool:
        """Whether the body of a function is generated in place of a call."""
        return bool(self._calls)

    def follow_up(self) -> None:
        """Count an error that follows from one that is reported already."""
        self.errors += 1

    def location(self, span: Span) -> LocationAttr:
        """Convert the start of a span to the location of an operation, with the calls that lead there."""
        if (place := self._places.get(span.start)) is None:
            line, column = self.source.line_col(span.start)
            place = self._places[span.start] = FileLineColLoc(self._name, IntAttr(line), IntAttr(column))
        return CallSiteLoc(place, self._callers[-1]) if self._callers else place

    def error(
        self,
        code: str,
        message: str,
        span: Span,
        *,
        labels: Labels = (),
        notes: tuple[str, ...] = (),
        helps: tuple[str, ...] = (),
        fixes: tuple[Fix, ...] = (),
        severity: Severity = Severity.ERROR,
    ) -> None:
        self.errors += severity is Severity.ERROR
        if self._calls:
            # What is wrong with a body whatever it is called with is said once.
            if (problem := (code, message, span)) in self._inlined:
                return
            self._inlined.add(problem)
            labels = (*labels, *((call, f"in this call of '{name}'") for call, name in reversed(self._calls)))
        self.sink.emit(
            Diagnostic(
                code,
                message,
                span,
                severity,
                labels=labels,
                notes=notes,
                helps=helps,
                fixes=fixes,
                source=self.source,
            )
        )

    def warn(self, code: str, message: str, span: Span, help_: str) -> None:
        self.error(code, message, span, helps=(help_,), severity=Severity.WARNING)

    def unknown(
        self,
        code: str,
        message: str,
        span: Span,
        word: str,
        known: Iterable[str],
        notes: tuple[str, ...] = (),
        helps: tuple[str, ...] = (),
        applicability: Applicability = Applicability.MAYBE_INCORRECT,
    ) -> None:
        """Report a word that is not in `known`, with the nearest spelling as a fix, or else with `helps`.

        `applicability` is that of the fix: by default a suggestion only.
        """
        fixes: tuple[Fix, ...] = ()
        if (guess := near_spelling(word, known)) is not None:
            helps = (f"did you mean '{guess}'?",)
            fixes = (Fix(span, guess, f"write '{guess}'", applicability),)
        self.error(code, message, span, notes=notes, helps=helps, fixes=fixes)

    def rule_error(
        self, error: TypeRuleError, span: Span, labels: Labels = (), fixes: tuple[Fix, ...] = ()
    ) -> None:
        """Report a broken type rule at the source of the operation."""
        self.error(
            error.code, error.message, span, labels=labels, notes=error.notes, helps=error.helps, fixes=fixes
        )


def type_text(type_: Attribute) -> str:
    """Print a type in the language's syntax: `bf16[M, K]`, or `f32` for a scalar."""
    return str(type_) if isinstance(type_, TensorType) else dtype_name(type_)
