"""The parser's cursor over tokens, with error reporting and recovery."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

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
from mucc.frontend.ast import Ident
from mucc.frontend.lexer import KEYWORDS, MAX_ERRORS, Comment, Token, comments_in, lex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

CLOSERS = {"(": ")", "[": "]", "{": "}"}
ITEM_WORDS = ("kernel", "fn", "schedule")
STATEMENT_WORDS = ("return", "stage", *ITEM_WORDS)


class Bail(Exception):
    """Parsing continues at the nearest point of recovery; the error is reported before this is raised."""


class Stream:
    """A cursor over the tokens of one source; errors go to `sink`, at most one per token."""

    def __init__(self, source: Source, sink: DiagnosticSink):
        self.source = source
        self.sink = sink
        self.tokens, self._with_comments = lex(source, sink)
        self.position = 0
        self._reported_at = -1
        self._begun = 0
        self._unread = self._unread_characters()
        self._misnamed: set[str] = set()
        """Reserved words that were reported as names."""

    @cached_property
    def comments(self) -> list[Comment]:
        """All comments of the source."""
        return comments_in(self.source.text, self._with_comments)

    @property
    def findings(self) -> list[Diagnostic]:
        """All diagnostics so far, in the order of the text."""
        return sorted(self.sink.diagnostics, key=lambda d: d.span.start if d.span else 0)

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    @property
    def kind(self) -> str:
        return self.tokens[self.position].kind

    def kind_after(self, n: int) -> str:
        """Return the kind of the token `n` positions ahead; "eof" past the end."""
        return self.tokens[min(self.position + n, len(self.tokens) - 1)].kind

    def span_from(self, start: int) -> Span:
        """Build the span from the character offset `start` to the end of the last consumed token."""
        return Span(start, max(start, self.tokens[self.position - 1].end if self.position else start))

    def advance(self) -> Token:
        """Consume and return a token; the last one, "eof", is never consumed."""
        token = self.tokens[self.position]
        if token.kind != "eof":
            self.position += 1
        return token

    def accept(self, kind: str) -> Token | None:
        return self.advance() if self.kind == kind else None

    # Errors

    def _unread_characters(self) -> list[int]:
        """Return where characters were reported that no token and no comment was read from."""
        if not self.sink.diagnostics:
            return []
        read = {token.start for token in self.tokens}
        starts = [d.span.start for d in self.sink.diagnostics if d.span and d.source is self.source]
        return [at for at in starts if at not in read and self.source.text[at] not in ";#/"]

    def begin(self) -> None:
        """Note that a statement or an item begins: errors behind unread characters of it are not reported."""
        self._begun = self.token.start

    def _is_garbled(self) -> bool:
        """Whether a character was left out between the beginning of the statement and the current token."""
        return any(self._begun <= at < self.token.start for at in self._unread)

    def leave_out(self, start: int) -> None:
        """Drop what the lexer reported from an offset on, where the parser reported more."""
        end = self.token.start
        within = [d for d in self.sink.diagnostics if d.span and start <= d.span.start < end]
        lexical = [d for d in within if d.code in ("MU0002", "MU0003")]
        if len(lexical) < len(within):
            self.sink.diagnostics[:] = [d for d in self.sink.diagnostics if d not in lexical]

    def error(
        self,
        code: str,
        message: str,
        span: Span | None = None,
        *,
        label: str = "",
        labels: tuple[tuple[Span, str], ...] = (),
        notes: tuple[str, ...] = (),
        helps: tuple[str, ...] = (),
        fixes: tuple[Fix, ...] = (),
    ) -> Bail:
        """Report an error at `span` (the current token if None).

        Only the first error at a token is reported, and none behind a character that could not be read.
        """
        repeated, self._reported_at = self._reported_at == self.position, self.position
        if not repeated and not self._is_garbled() and len(self.sink.diagnostics) < MAX_ERRORS:
            self.sink.emit(
                Diagnostic(
                    code,
                    message,
                    span or self.token.span,
                    label=label,
                    labels=labels,
                    notes=notes,
                    helps=helps,
                    fixes=fixes,
                    source=self.source,
                )
            )
        return Bail()

    def warn(self, code: str, message: str, span: Span, *, helps: tuple[str, ...]) -> None:
        """Report a warning at `span`."""
        self.sink.emit(
            Diagnostic(code, message, span, helps=helps, severity=Severity.WARNING, source=self.source)
        )

    def unexpected(self, expected: str, *, helps: tuple[str, ...] = (), fixes: tuple[Fix, ...] = ()) -> Bail:
        return self.error(
            "MU0001", f"expected {expected}, found {token_text(self.token)}", helps=helps, fixes=fixes
        )

    def expect(self, kind: str, what: str = "") -> Token:
        """Consume a token of this kind. Raises Bail after reporting any other token."""
        if self.kind != kind:
            raise self.unexpected(what or f"'{kind}'")
        return self.advance()

    def name(self, what: str) -> Ident:
        """Consume a name; a reserved word is reported (MU0005) and taken as a name."""
        token = self.token
        if token.kind in KEYWORDS and token.text == token.kind:  # not another language's spelling, as '!'
            self.error(
                "MU0005",
                f"'{token.text}' is a reserved word and cannot be {what}",
                helps=(f"choose another name, for example '{token.text}_'",),
                fixes=(Fix(token.span, f"{token.text}_", "rename it"),),
            )
            self._misnamed.add(token.kind)
        elif token.kind != "name":
            raise self.unexpected(what)
        return Ident(self.advance().span, token.text)

    def did_you_mean(self, words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[Fix, ...]]:
        """Return help and fix if the current token is a misspelling of one of `words`."""
        guess = near_spelling(self.token.text, words)
        if guess is None:
            return (), ()
        return (f"did you mean '{guess}'?",), (safe_fix(self.token.span, guess, f"write '{guess}'"),)

    # Brackets and recovery

    def close(self, opener: Token, separator: str = "", helps: tuple[str, ...] = ()) -> Token:
        """Consume the bracket that closes `opener`. Raises Bail after reporting a missing one."""
        closer = CLOSERS[opener.kind]
        if self.kind == closer:
            return self.advance()
        if self._at_boundary():
            from mucc.frontend import syntax_help

            raise self.error(
                "MU0004",
                f"'{opener.kind}' is never closed",
                opener.span,
                helps=syntax_help.quotient_help(self.comments, opener.end, self.token.start),
                labels=((self.token.span, f"expected '{closer}' before {token_text(self.token)}"),),
            )
        if not helps:
            from mucc.frontend import syntax_help

            helps = syntax_help.item_end_help(self.token, self.tokens[self.position - 1], opener)
        raise self.unexpected(f"{separator}'{closer}'", helps=helps)

    def items(self, opener: Token, item: Callable[[], T], empty: bool = True) -> tuple[T, ...]:
        """Parse comma-separated items up to the closing bracket; a trailing comma is allowed.

        An item with an error is dropped, and parsing continues at the next comma.
        """
        closer = CLOSERS[opener.kind]
        parsed: list[T] = []
        failed = False
        while self.kind != closer or not (empty or parsed or failed):
            try:
                parsed.append(item())
                if self.kind == closer:
                    break
                if not self.accept(","):
                    self.close(opener, "',' or ")
            except Bail:
                failed = True
                if not self._to_next_item(closer):
                    raise
        self.advance()
        return tuple(parsed)

    def _to_next_item(self, closer: str) -> bool:
        """Skip past the next comma, or to `closer`; returns False if neither comes."""
        depth = 0
        while not self._at_boundary():
            kind = self.kind
            if depth == 0 and kind == closer:
                return True
            if depth == 0 and kind == ",":
                self.advance()
                return True
            if kind in CLOSERS:
                depth += 1
            elif kind in (")", "]"):
                if depth == 0:
                    return False
                depth -= 1
            self.advance()
        return False

    def _at_boundary(self) -> bool:
        """Whether the current token cannot stand inside round or square brackets."""
        return self.kind in (*STATEMENT_WORDS, "{", "}", "eof") or self.starts_assignment()

    def starts_assignment(self) -> bool:
        """Whether the current token begins a line with `name =`, outside a list of arguments."""
        if self.kind != "name" or self.kind_after(1) != "=" or self.position == 0:
            return False
        before = self.tokens[self.position - 1]
        return (
            before.kind not in (",", "(", "[")
            and self.source.text.find("\n", before.end, self.token.start) >= 0
        )

    def to_statement(self) -> None:
        """Skip to the next token that may begin a statement, or to the end of the block.

        Blocks within, which no statement has, are skipped with what they hold.
        """
        depth = braces = 0
        while self.kind not in (*ITEM_WORDS, "eof"):
            kind = self.kind
            if braces == 0 and (kind in STATEMENT_WORDS or (depth == 0 and self.starts_assignment())):
                return
            if depth == braces == 0 and kind == "}":
                return
            if kind in CLOSERS:
                depth += 1
                braces += kind == "{"
            elif kind in (")", "]", "}"):
                depth = max(depth - 1, 0)
                braces = max(braces - 1, 0) if kind == "}" else braces
            self.advance()

    def to_brace(self) -> bool:
        """Skip to the opening brace of the current item; returns False if there is none."""
        while self.kind not in (*ITEM_WORDS, "eof"):
            if self.kind == "{":
                return True
            self.advance()
        return False


def safe_fix(span: Span, replacement: str, message: str) -> Fix:
    """Build a fix that tools may apply automatically."""
    return Fix(span, replacement, message, Applicability.MACHINE_APPLICABLE)


def token_text(token: Token) -> str:
    """Print a token for messages."""
    if token.kind == "eof":
        return "the end of the file"
    return f"'{token.text if len(token.text) <= 32 else token.text[:29] + '...'}'"
