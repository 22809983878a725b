"""Excerpts of a program: one kernel with its schedules and the functions that it calls.

Kernels do not influence each other, so an editor's edit of one of them needs no new analysis of the others:
the text of an excerpt is the key of what is known of its kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from mucc.diagnostics.core import Diagnostic, Source, Span
from mucc.frontend import ast

_BETWEEN = "\n\n"
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Excerpt:
    """The items of a program that one kernel needs; `spans` are their places in the source, in order."""

    kernel: str
    source: Source
    spans: tuple[Span, ...]

    @property
    def text(self) -> str:
        """The text of the items."""
        return _BETWEEN.join(self.source.text[s.start : s.end] for s in self.spans)

    def outer(self, offset: int) -> int:
        """Convert an offset into the excerpt to one into the source."""
        begin = 0
        for span in self.spans:
            length = span.end - span.start
            if offset <= begin + length:
                return span.start + max(offset - begin, 0)
            begin += length + len(_BETWEEN)
        return self.spans[-1].end

    def inner(self, offset: int) -> int | None:
        """Convert an offset into the source to one into the excerpt; None where it is in no item of it."""
        begin = 0
        for span in self.spans:
            if span.start <= offset <= span.end:
                return begin + offset - span.start
            begin += span.end - span.start + len(_BETWEEN)
        return None

    def placed(self, found: Diagnostic) -> Diagnostic:
        """Convert a diagnostic of the excerpt to one of the source."""
        return replace(
            found,
            span=self._outer(found.span) if found.span else None,
            labels=tuple((self._outer(span), text) for span, text in found.labels),
            fixes=tuple(replace(fix, span=self._outer(fix.span)) for fix in found.fixes),
            source=self.source,
        )

    def _outer(self, span: Span) -> Span:
        return Span(self.outer(span.start), self.outer(span.end))


def excerpts(program: ast.Program, source: Source) -> list[Excerpt]:
    """Divide a program that has no errors in its language into excerpts, one for each kernel."""
    return [Excerpt(k.name.text, source, tuple(_needed(k, program, source))) for k in program.kernels]


def _needed(kernel: ast.Kernel, program: ast.Program, source: Source) -> Iterator[Span]:
    """Yield the spans of items that a kernel needs, in the order of the text."""
    called = {f.name.text: f for f in program.functions}
    wanted: set[str] = set()
    waiting: list[ast.Kernel | ast.Function] = [kernel]
    while waiting:
        span = waiting.pop().span
        names = set(_WORD.findall(source.text[span.start : span.end])) & called.keys() - wanted
        wanted |= names
        waiting += [called[name] for name in names]
    for item in program.items:
        if (
            item is kernel
            or (isinstance(item, ast.Function) and item.name.text in wanted)
            or (isinstance(item, ast.Schedule) and item.kernel.text == kernel.name.text)
        ):
            yield item.span
