"""Render diagnostics as text for people and as JSON for tools."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import IO

from mucc.diagnostics.core import Applicability, Diagnostic, Fix, Severity, Source, Span
from mucc.diagnostics.json_form import DiagnosticJson, PlaceJson

TAB = 4
"""Columns of a tab in a rendered source line."""

WIDEST = 160
"""The most columns of a source line; longer lines are cut around the span."""

_COLOURS = {
    "error": "1;31",
    "warning": "1;33",
    "note": "1;36",
    "help": "1;32",
    "gutter": "1;34",
    "bold": "1",
    "add": "32",
    "remove": "31",
}


def use_colour(stream: IO[str]) -> bool:
    """Whether to colour output to `stream`: it is a terminal, and NO_COLOR is not set."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def summary(diagnostics: Iterable[Diagnostic]) -> str:
    """Count errors and warnings in words, such as `2 errors, 1 warning`; empty for none."""
    severities = [d.severity for d in diagnostics]
    counts = ((severities.count(s), s.value) for s in (Severity.ERROR, Severity.WARNING))
    return ", ".join(f"{n} {word}{'s' * (n != 1)}" for n, word in counts if n)


def render_text(diagnostic: Diagnostic, source: Source | None = None, *, colour: bool = False) -> str:
    """Render a diagnostic as text that ends with a newline.

    `source` is what the spans point into, unless the diagnostic names its own.
    """
    return _Text(diagnostic, diagnostic.source or source, colour).render()


class _Text:
    """Renderer of one diagnostic."""

    def __init__(self, diagnostic: Diagnostic, source: Source | None, colour: bool):
        self.diagnostic = diagnostic
        self.source = source
        self.colour = colour
        self.width = 0 if diagnostic.span is None else len(str(max(self._lines(), default=1)))

    def paint(self, style: str, text: str) -> str:
        return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m" if self.colour and text else text

    def gutter(self, number: int | str = "") -> str:
        return self.paint("gutter", f" {number:>{self.width}} |")

    def render(self) -> str:
        d = self.diagnostic
        head = self.paint(d.severity.value, f"{d.severity}[{d.code}]")
        first, *rest = _clean(d.message).split("\n")
        lines = [head + self.paint("bold", f": {first}"), *(f"  {line}" for line in rest)]
        if d.span is not None and self.source is not None:
            lines += self._snippet(self.source, d.span)
        elif self.source is not None:
            lines.append(f"{self.paint('gutter', '  -->')} {self.source.name}")
        for word, texts in (("note", d.notes), ("help", d.helps)):
            for text in texts:
                lines += self._advice(word, text)
        if self.source is not None:
            for fix in d.fixes:
                lines += self._fix(self.source, fix)
        return "".join(f"{line.rstrip()}\n" for line in lines)

    def _lines(self) -> Iterator[int]:
        """Collect the line numbers that the text will show."""
        if self.source is None:
            return
        spans = [self.diagnostic.span, *(s for s, _ in self.diagnostic.labels)]
        for span in (*spans, *(f.span for f in self.diagnostic.fixes)):
            if span is not None:
                span = _visible(self.source, span)
                yield self.source.line_col(span.start)[0]
                yield self.source.line_col(span.end)[0]

    def _advice(self, word: str, text: str) -> list[str]:
        first, *rest = _clean(text).split("\n")
        margin = " " * (self.width + 2)
        head = f"{margin}{self.paint('gutter', '=')} {self.paint('bold', word)}: {first}"
        return [head, *(f"{margin}        {line}" for line in rest)]

    def _snippet(self, source: Source, span: Span) -> list[str]:
        span = _visible(source, span)
        line, col = source.line_col(span.start)
        arrow = self.paint("gutter", f" {'':>{self.width}}-->")
        out = [f"{arrow} {source.name}:{line}:{col}", self.gutter()]
        # line -> its underlines: (first column, last column + 1, mark, text)
        marks: dict[int, list[tuple[int, int, str, str]]] = {}
        for where, text, mark in [
            (span, self.diagnostic.label, "^"),
            *((_visible(source, s), t, "-") for s, t in self.diagnostic.labels),
        ]:
            for number, start, end, last in _pieces(source, where):
                marks.setdefault(number, []).append((start, end, mark, text if last else ""))
        previous = None
        for number in sorted(marks):
            if previous is not None and number > previous + 1:
                hidden = number - previous - 1
                between = _show(source.line_text(number - 1))[:WIDEST]
                out.append(f" {number - 1:>{self.width}} | {between}" if hidden == 1 else "...")
            out += self._marked_line(source, number, marks[number])
            previous = number
        return out + ([self.gutter()] if self.diagnostic.notes or self.diagnostic.helps else [])

    def _marked_line(self, source: Source, number: int, marks: list[tuple[int, int, str, str]]) -> list[str]:
        text = source.line_text(number)
        shown, shift = _window(text, marks[0][0])
        out = [f"{self.gutter(number)} {shown}"]
        for start, end, mark, label in marks:
            left = max(_columns(text[:start]) - shift, 0)
            width = max(_columns(text[:end]) - shift - left, 1)
            if shift or len(shown) >= WIDEST:
                width = max(min(width, WIDEST - left), 1)
            style = self.diagnostic.severity.value if mark == "^" else "gutter"
            under = self.paint(style, f"{mark * width} {_clean(label)}".rstrip())
            out.append(f"{self.gutter()} {' ' * left}{under}")
        return out

    def _fix(self, source: Source, fix: Fix) -> list[str]:
        first = source.line_col(fix.span.start)[0]
        last = source.line_col(fix.span.end)[0]
        start, end = source.offset(first, 1), source.offset(last, 1) + len(source.line_text(last))
        old = source.text[start:end].split("\n")
        changed = source.text[start : fix.span.start] + fix.replacement + source.text[fix.span.end : end]
        new = changed.rstrip("\n").split("\n")
        while len(old) > 1 and new and old[-1] == new[-1]:  # lines after the edit that it only touches
            old.pop()
            new.pop()
        out = [f"{self.paint('help', 'help')}: {_clean(fix.message or 'change it like this')}"]
        for style, sign, lines in (("remove", "-", old), ("add", "+", new)):
            for number, line in enumerate(lines, first):
                if line.strip():
                    shown = self.paint(style, f"{sign} {_show(line)[:WIDEST]}")
                    out.append(f"{self.paint('gutter', f' {number:>{self.width}}')} {shown}")
        return out


def _visible(source: Source, span: Span) -> Span:
    """Adjust a span at the end of the text to point after the last token."""
    size = len(source.text)
    start, end = min(max(span.start, 0), size), min(max(span.end, span.start, 0), size)
    written = len(source.text.rstrip())
    if start >= written and written:
        return Span(written, written)
    return Span(start, end)


def _pieces(source: Source, span: Span) -> Iterator[tuple[int, int, int, bool]]:
    """Split a span into its first and last line: (line, start, end, whether it is the last)."""
    first, start = source.line_col(span.start)
    last, end = source.line_col(span.end)
    if end == 1 and last > first:  # the span ends with a newline: stay on the line before
        last, end = last - 1, len(source.line_text(last - 1)) + 1
    if first == last:
        yield first, start - 1, end - 1, True
        return
    yield first, start - 1, len(source.line_text(first).rstrip()), False
    text = source.line_text(last)
    yield last, len(text) - len(text.lstrip()), end - 1, True


def _window(text: str, focus: int) -> tuple[str, int]:
    """Cut a long line around character `focus`; returns the part, and the columns cut on the left."""
    shown = _show(text)
    if len(shown) <= WIDEST:
        return shown, 0
    if not text.isascii():  # characters may take two columns, or none
        first = max(focus - WIDEST // 2, 0)
        return _show(text[first : first + WIDEST]), _columns(text[:first])
    shift = max(_columns(text[:focus]) - WIDEST // 2, 0)
    return shown[shift : shift + WIDEST], shift


def _show(text: str) -> str:
    """Print a source line: tabs as spaces, control characters made visible."""
    return _clean(text.rstrip("\r").replace("\t", " " * TAB))


def _clean(text: str) -> str:
    """Remove control characters, so that a file cannot send escape codes to the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _columns(text: str) -> int:
    """Count the terminal columns of a text."""
    if text.isascii():
        return len(text) + (TAB - 1) * text.count("\t")
    from unicodedata import combining, east_asian_width

    def columns(c: str) -> int:
        if c == "\t":
            return TAB
        return 0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1

    return sum(map(columns, text))


def to_json(diagnostic: Diagnostic, source: Source | None = None) -> DiagnosticJson:
    """Convert a diagnostic to JSON values. Offsets are in characters; lines and columns count from 1."""
    source = diagnostic.source or source

    def place(span: Span | None) -> PlaceJson | None:
        if span is None:
            return None if source is None else {"file": source.name}
        if source is None:
            return {"start": span.start, "end": span.end}
        line, column = source.line_col(span.start)
        end_line, end_column = source.line_col(span.end)
        return {
            "file": source.name,
            "start": span.start,
            "end": span.end,
            "line": line,
            "column": column,
            "end_line": end_line,
            "end_column": end_column,
        }

    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "span": place(diagnostic.span),
        "label": diagnostic.label,
        "labels": [{"span": place(s), "text": t} for s, t in diagnostic.labels],
        "notes": list(diagnostic.notes),
        "helps": list(diagnostic.helps),
        "fixes": [
            {
                "span": place(f.span),
                "replacement": f.replacement,
                "message": f.message,
                "applicability": f.applicability.value,
            }
            for f in diagnostic.fixes
        ],
    }


def from_json(value: DiagnosticJson) -> Diagnostic:
    """Parse a diagnostic from the JSON of `to_json`, without its source."""

    def span(place: PlaceJson | None) -> Span | None:
        return Span(place["start"], place["end"]) if place and "start" in place and "end" in place else None

    labels = ((span(label["span"]), label["text"]) for label in value.get("labels", ()))
    fixes = ((span(fix["span"]), fix) for fix in value.get("fixes", ()))
    return Diagnostic(
        value["code"],
        value["message"],
        span(value.get("span")),
        Severity(value.get("severity", "error")),
        value.get("label", ""),
        tuple((where, text) for where, text in labels if where),
        tuple(value.get("notes", ())),
        tuple(value.get("helps", ())),
        tuple(
            Fix(where, fix["replacement"], fix["message"], Applicability(fix["applicability"]))
            for where, fix in fixes
            if where
        ),
    )


def render_json(diagnostics: Iterable[tuple[Diagnostic, Source | None]]) -> str:
    """Render a JSON list with one diagnostic per line."""
    import json

    rows = [json.dumps(to_json(d, s), ensure_ascii=False) for d, s in diagnostics]
    return "[\n" + ",\n".join(rows) + "\n]\n" if rows else "[]\n"
