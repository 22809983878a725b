"""Format programs canonically, for `mucc fmt`.

The layout: four spaces, at most 100 columns where a line can be broken, one blank line between items, aligned
`=` in schedules, no redundant brackets. All comments are kept: on a line of their own, at the end of a line
of code, or, from inside a statement, moved before it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from mucc.diagnostics.core import DiagnosticError, DiagnosticSink, Source, Span
from mucc.frontend import ast
from mucc.frontend.exprtext import WIDTH, dim_text, expr_lines, promise_text, type_text, value_text
from mucc.frontend.lexer import Comment
from mucc.frontend.parser import Parser

INDENT = "    "
_BESIDE = re.compile(r"[ \t\r,]*")
"""What may stand between an element and a comment at the end of its line."""


def format_source(source: Source) -> str:
    """Format a program; a text without tokens and comments gives an empty text.

    Raises DiagnosticError with all syntax errors.
    """
    parser = Parser(source, DiagnosticSink(source))
    program = parser.program()
    if parser.sink.has_errors:
        raise DiagnosticError(parser.findings)
    return Formatter(source.text, parser.comments).program(program)


def param_text(param: ast.Param) -> str:
    """Print a parameter, such as `x: bf16[M, K]`."""
    return f"{param.name.text}: {type_text(param.type)}"


class Formatter:
    """Writer of formatted lines in source order; removes each comment from `comments` when written."""

    def __init__(self, text: str, comments: list[Comment]):
        self.text = text
        self.comments = comments
        self.lines: list[str] = []
        self.last_end = 0  # the end in `text` of the element written last
        self.gap: bool | None = False  # whether a blank line follows; None: if the text has one

    def program(self, program: ast.Program) -> str:
        for item in program.items:
            match item:
                case ast.Kernel():
                    self._kernel(item)
                case ast.Function():
                    self._function(item)
                case ast.Schedule():
                    self._schedule(item)
            self._comments_before(item.span.end, INDENT)
            self._write(["}"], item.span.end)
            self.gap = True
        self._comments_before(len(self.text), "")
        return "".join(line + "\n" for line in self.lines)

    def _kernel(self, kernel: ast.Kernel) -> None:
        where = Span(kernel.results_span.end, kernel.open.start)
        lists = [kernel.params_span]
        if isinstance(kernel.results, tuple):
            lists.append(kernel.results_span)
        if kernel.promises:
            lists.append(where)
        outside: list[Comment] = []
        start = kernel.span.start
        for span in [*lists, kernel.open]:
            outside += self._take(start, span.start)
            start = span.end
        self._begin(kernel.span.start, "", outside)
        self._header(kernel, where)
        self._body(kernel)

    def _function(self, function: ast.Function) -> None:
        start, span = function.span.start, function.params_span
        outside = self._take(start, span.start) + self._take(span.end, function.open.start)
        self._begin(start, "", outside)
        head, params = f"fn {function.name.text}(", ", ".join(p.text for p in function.params)
        if self._has_comments(span) or (params and len(f"{head}{params}) {{") > WIDTH):
            self.lines.append(head)
            self._items([(p.span, p.text) for p in function.params], span, INDENT)
            self.lines.append(") {")
        else:
            self.lines.append(f"{head}{params}) {{")
        self._body(function)

    def _body(self, item: ast.Kernel | ast.Function) -> None:
        """Write the statements of a block, from its opening brace on."""
        self._opened(item.open)
        for statement in item.body:
            self._begin(statement.span.start, INDENT, self._take(statement.span.start, statement.span.end))
            self._write(_statement_lines(statement), statement.span.end)
        returns = item.return_span
        self._begin(returns.start, INDENT, self._take(returns.start, returns.end))
        self._write(_return_lines(item.returns), returns.end)

    def _header(self, kernel: ast.Kernel, where: Span) -> None:
        """Write everything up to the opening brace; lists with comments or too long for a line are broken."""
        dims = f"[{', '.join(map(dim_text, kernel.dims))}]" if kernel.dims else ""
        start = f"kernel {'each ' * kernel.each}{kernel.name.text}{dims}("
        params = ", ".join(map(param_text, kernel.params))
        named = kernel.results if isinstance(kernel.results, tuple) else ()
        if isinstance(kernel.results, tuple):
            results = f"({', '.join(map(param_text, kernel.results))})"
        else:
            results = type_text(kernel.results)
        end = "" if kernel.promises else " {"

        break_results = bool(named) and self._has_comments(kernel.results_span)
        tail = "(" if break_results else results + end
        break_params = self._has_comments(kernel.params_span)
        if not break_params and len(f"{start}{params}) -> {tail}") > WIDTH:
            break_params = bool(kernel.params)
        line = start + ("" if break_params else params)
        if break_params:
            self.lines.append(line)
            self._items([(p.span, param_text(p)) for p in kernel.params], kernel.params_span, INDENT)
            line = ""
        if named and len(f"{line}) -> {tail}") > WIDTH:
            break_results = True
        if break_results:
            self.lines.append(f"{line}) -> (")
            self._items([(p.span, param_text(p)) for p in named], kernel.results_span, INDENT)
            self.lines.append(f"){end}")
        else:
            self.lines.append(f"{line}) -> {results}{end}")
        if kernel.promises:
            self._where(kernel.promises, where)
            self.lines.append("{")

    def _where(self, promises: Sequence[ast.Promise], span: Span) -> None:
        flat = f"{INDENT}where {', '.join(map(promise_text, promises))}"
        if len(flat) <= WIDTH and not self._has_comments(span):
            self.lines.append(flat)
            return
        self.lines.append(f"{INDENT}where")
        self._items([(p.span, promise_text(p)) for p in promises], span, INDENT * 2)

    def _schedule(self, schedule: ast.Schedule) -> None:
        start = schedule.span.start
        self._begin(start, "", self._take(start, schedule.open.start))
        stage = f".{schedule.stage.text}" if schedule.stage else ""
        self.lines.append(f"schedule {schedule.kernel.text}{stage} for {schedule.target.text} {{")
        self._opened(schedule.open)
        width = max((len(s.name.text) for s in schedule.settings), default=0)
        for setting in schedule.settings:
            span = setting.span
            self._begin(span.start, INDENT, self._take(span.start, span.end))
            self._write([f"{INDENT}{setting.name.text:<{width}} = {value_text(setting.value)}"], span.end)

    # Lines and comments

    def _write(self, lines: list[str], end: int) -> None:
        """Write the lines of an element that ends at `end` in the text, with its trailing comment."""
        self.lines += lines
        self.last_end = end
        self.gap = None
        self._comment_behind(end)

    def _opened(self, brace: Span) -> None:
        """Continue after an opening brace, without a blank line."""
        self._write([], brace.end)
        self.gap = False

    def _begin(self, start: int, indent: str, inner: list[Comment]) -> None:
        """Write the comments before an element that starts at `start`, then the comments inside it."""
        self._comments_before(start, indent)
        self._blank_line(start)
        self.lines += [indent + c.text for c in inner]

    def _comments_before(self, position: int, indent: str) -> None:
        for comment in self._take(0, position):
            self._blank_line(comment.start)
            self.lines.append(indent + comment.text)
            self.last_end = comment.end

    def _blank_line(self, start: int) -> None:
        """Write a blank line if `gap` says so, or if the text has one before `start`."""
        gap = self.text.count("\n", self.last_end, start) > 1 if self.gap is None else self.gap
        if gap:
            self.lines.append("")
        self.gap = None

    def _comment_behind(self, end: int) -> None:
        place = self._place(end)
        comment = self.comments[place] if place < len(self.comments) else None
        if comment and _BESIDE.fullmatch(self.text, end, comment.start):
            del self.comments[place]
            self.lines[-1] += f"  {comment.text}"
            self.last_end = comment.end

    def _items(self, items: list[tuple[Span, str]], span: Span, indent: str) -> None:
        """Write the items of a broken list, one per line, with their comments."""
        for item, text in items:
            self.lines += [indent + c.text for c in self._take(span.start, item.end)]
            self.lines.append(f"{indent}{text},")
            self._comment_behind(item.end)
        self.lines += [indent + c.text for c in self._take(span.start, span.end)]

    def _has_comments(self, span: Span) -> bool:
        return self._place(span.start) < self._place(span.end)

    def _take(self, start: int, end: int) -> list[Comment]:
        """Remove and return the comments that begin from `start` up to `end`."""
        own = slice(self._place(start), self._place(end))
        taken = self.comments[own]
        del self.comments[own]
        return taken

    def _place(self, start: int) -> int:
        """Return the place in `comments` of the first one that begins at an offset or behind it."""
        return bisect_left(self.comments, start, key=attrgetter("start"))


def _statement_lines(statement: ast.Statement) -> list[str]:
    stage = "stage " if statement.is_stage else ""
    type_ = f": {type_text(statement.type)}" if statement.type else ""
    head = f"{INDENT}{stage}{statement.name.text}{type_} = "
    lines = expr_lines(statement.value, len(head), len(INDENT))
    return [head + lines[0], *lines[1:]]


def _return_lines(values: tuple[ast.Expr, ...]) -> list[str]:
    """Print returned values on one line if they fit, otherwise each on lines of its own."""
    head = f"{INDENT}return "
    flat = [expr_lines(v, -(10**6), 0)[0] for v in values]
    if len(head) + len(", ".join(flat)) <= WIDTH:
        return [head + ", ".join(flat)]
    lines: list[str] = []
    for n, value in enumerate(values):
        start = INDENT * 2 if n else head
        comma = "," if n + 1 < len(values) else ""
        own = expr_lines(value, len(start), len(INDENT) * (2 if n else 1), len(comma))
        lines += [start + own[0], *own[1:]]
        lines[-1] += comma
    return lines
