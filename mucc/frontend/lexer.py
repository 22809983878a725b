"""Split text into tokens and comments by one regular expression."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from mucc.diagnostics.core import Applicability, Diagnostic, DiagnosticSink, Fix, Source, Span

KEYWORDS = frozenset(
    {"kernel", "fn", "schedule", "for", "where", "stage", "return", "and", "or", "not", "None"}
)
"""Reserved words; `where` doubles as a function in expressions."""

DTYPES = ("bf16", "f16", "f32", "e4m3", "e5m2", "s8", "u8", "s32", "s4", "u4")
PUNCTUATION = tuple("""-> == <= >= != < > = + - * / % @ ( ) [ ] { } , : ... .""".split())  # noqa: SIM905
MAX_INT = 2**63 - 1
MAX_ERRORS = 100
"""The most syntax errors reported in a run; a file with more is probably not a program."""

_TOKEN = re.compile(
    r"(?P<space>(?:[ \t\r\n\f\v\ufeff]+|//[^\n]*){1,4096})"
    r"|(?P<block>/\*.*?(?:\*/|\Z))"
    r"|(?P<hash>#[^\n]*)"
    r"|(?P<doc>\"{3}.*?(?:\"{3}|\Z)|'{3}.*?(?:'{3}|\Z))"
    r"|(?P<string>\"[^\"\n]*\"|'[^'\n]*')"
    r"|(?P<number>[0-9](?:[A-Za-z0-9_]|(?<=[0-9])\.(?=[0-9])|(?<=[0-9.][eE])[+-](?=[0-9]))*)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<punct>" + "|".join(re.escape(p) for p in PUNCTUATION) + r")"
    r"|(?P<bad>;+|&+|\|+|.[^\s\x00-\x7f]*)",
    re.DOTALL,
)
_COMMENT = re.compile(r"//[^\n]*")
_NUMBER = re.compile(
    r"(?P<int>[0-9]+)|(?P<shape>[0-9]+(?:x[0-9]+)+)|(?P<float>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
)
_ADVICE = {
    ";": "statements need no ';' between them",
    "#": "comments begin with '//'",
    **dict.fromkeys(('"""', "'''"), "a comment begins with '//', on each of its lines"),
    "/*": "a comment begins with '//', on each of its lines",
    "&": "write 'and' for a logical and, bitwise_and(a, b) for bits",
    "|": "write 'or' for a logical or, bitwise_or(a, b) for bits",
    "!": "write 'not'",
    "~": "write 'not' for a condition, bitwise_not(x) for bits",
    "^": "write pow(x, y) for a power, bitwise_xor(a, b) for bits",
    **dict.fromkeys(
        "\"'", "there are no strings in this language; infinity is `inf`, an einsum a product `@`"
    ),
    "?": "write where(condition, a, b) to choose",
    **dict.fromkeys("−–—", "write the ASCII '-'"),
    "×": "write '*', or '@' for a matrix product",
    "÷": "write '/'",
    "≤": "write '<='",
    "≥": "write '>='",
    "≠": "write '!='",
    "ᵀ": "write '.T' for a transpose",
}

_DIRECTIVE = re.compile(r"#(?:include|define|undef|pragma|ifdef|ifndef|if|elif|else|endif)\b")
_NO_PREPROCESSOR = (
    "there is no preprocessor: all functions are known, and a number is named in a kernel, `eps = 1e-5`, "
    "or is a bound dim, `kernel f[K=4096](...)`"
)

_EDITS = {
    ";": ("", "remove it"),
    "#": ("//", "write '//'"),
    **dict.fromkeys("−–—", ("-", "write '-'")),
    "÷": ("/", "write '/'"),
    "≤": ("<=", "write '<='"),
    "≥": (">=", "write '>='"),
    "≠": ("!=", "write '!='"),
    "&&": ("and", "write 'and'"),
    "||": ("or", "write 'or'"),
}
"""What is written in place of a character that stands for one thing only."""

_READ_AS = {
    "&": "and",
    "&&": "and",
    "|": "or",
    "||": "or",
    "!": "not",
    **dict.fromkeys("−–—", "-"),
    "×": "*",
    "÷": "/",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
}
"""The tokens that operators of other languages are read as, so that nothing else is said about them."""


def is_name(word: str) -> bool:
    """Whether a word is a legal name of a kernel."""
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", word) is not None and word not in KEYWORDS


class Token(NamedTuple):
    """A token; `kind` is "name", "int", "float", "shape", "eof", or the text of a keyword or punctuation."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


class Comment(NamedTuple):
    """A comment with its slashes, without the line end."""

    text: str
    start: int
    end: int


def lex(source: Source, sink: DiagnosticSink) -> tuple[list[Token], list[Span]]:
    """Split `source` into tokens, the last of kind "eof", and places between them that have comments.

        name    = ( letter | "_" ) { letter | digit | "_" } ;   (* not a reserved word *)
        integer = digit { digit } ;
        number  = integer [ "." integer ] [ ( "e" | "E" ) [ "+" | "-" ] integer ] ;
        shape   = integer "x" integer { "x" integer } ;         (* no spaces within *)
        comment = "//" { any character but a line end } ;

    Unknown characters (MU0002) and malformed numbers (MU0003) are reported to `sink`; such characters are
    skipped, but for operators of other languages, and such numbers become zero. A string becomes the name
    within it, else zero.
    """
    tokens: list[Token] = []
    places: list[Span] = []
    text = source.text
    for match in _TOKEN.finditer(text):
        kind, (start, end) = match.lastgroup, match.span()
        if kind == "space":
            if text.find("//", start, end) >= 0:
                places.append(Span(start, end))
            continue
        word = match.group()
        if kind == "name":
            tokens.append(Token(word if word in KEYWORDS else "name", word, start, end))
        elif kind == "punct":
            tokens.append(Token(word, word, start, end))
        elif kind == "number":
            tokens.append(_number(word, start, source, sink))
        elif kind == "doc":
            _bad_character(word[:3], start, source, sink)
        elif kind == "string":
            tokens.append(_string(word, start, source, sink))
        else:
            _bad_character(word, start, source, sink)
            if read := _READ_AS.get(word):
                tokens.append(Token(read, word, start, end))
    tokens.append(Token("eof", "", len(text), len(text)))
    return tokens, places


def comments_in(text: str, places: Iterable[Span]) -> list[Comment]:
    """Return the comments at the places that `lex` found."""
    found = (m for place in places for m in _COMMENT.finditer(text, place.start, place.end))
    return [Comment(m.group().rstrip(), *m.span()) for m in found]


def _number(word: str, start: int, source: Source, sink: DiagnosticSink) -> Token:
    span = Span(start, start + len(word))
    match = _NUMBER.fullmatch(word)
    if match is None:
        message, (helps, fixes) = f"'{_short(word)}' is not a number", _number_advice(word, span)
        _report(sink, Diagnostic("MU0003", message, span, helps=helps, fixes=fixes, source=source))
        return Token("int", "0", span.start, span.end)
    kind = match.lastgroup or "int"
    if kind == "float":
        too_large, limit = float(word) == float("inf"), "the largest double is about 1.8e308"
    else:
        # The length comes first: Python refuses to convert thousands of digits.
        too_large = any(len(p) > len(str(MAX_INT)) or int(p) > MAX_INT for p in word.split("x"))
        limit = f"integers go up to {MAX_INT}"
    if too_large:
        message = f"the number '{_short(word)}' is too large"
        _report(sink, Diagnostic("MU0003", message, span, notes=(limit,), source=source))
        # A shape stays one, so that nothing else is said about it.
        sizes = "x".join("1" for _ in word.split("x"))
        kind, word = (kind, sizes) if kind == "shape" else ("int", "0")
    return Token(kind, word, span.start, span.end)


def _number_advice(word: str, span: Span) -> tuple[tuple[str, ...], tuple[Fix, ...]]:
    """Return help and fix for a number of another language: `1.0f`, `0xff`, `1_000`, `128X64`, `2x`."""
    meant = re.sub(r"(?<=[0-9.])[fFhHlLuU]+", "", word).replace("_", "").replace("X", "x")
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,15}", word):
        meant = str(int(word, 16))
    if _NUMBER.fullmatch(meant):
        return (f"write {meant}",), (Fix(span, meant, f"write {meant}"),)
    if product := re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([A-DF-Za-df-z]\w*)", word):
        return (f"a product has an operator: `{product[1]} * {product[2]}`",), ()
    return ("write a number as 12, 0.5 or 1e-6, and a tile shape as 128x256x64",), ()


def _string(word: str, start: int, source: Source, sink: DiagnosticSink) -> Token:
    """Report a string, and return what it is read as."""
    span, name = Span(start, start + len(word)), word[1:-1]
    helps, fixes = (_ADVICE[word[0]],), ()
    if is_name(name):
        helps = (f"words have no quotes: `{name}`",)
        fixes = (Fix(span, name, "remove the quotes", Applicability.MACHINE_APPLICABLE),)
    message = f"unexpected string {_short(word)}"
    _report(sink, Diagnostic("MU0002", message, span, helps=helps, fixes=fixes, source=source))
    return (
        Token("name", name, span.start, span.end)
        if is_name(name)
        else Token("int", "0", span.start, span.end)
    )


def _bad_character(word: str, start: int, source: Source, sink: DiagnosticSink) -> None:
    if not _has_room(sink):
        return
    if word[0] == "#" and (match := _DIRECTIVE.match(word)):
        word = match.group()
    elif word[0] in "#/":  # with the comment behind it
        word = "#" if word[0] == "#" else "/*"
    span = Span(start, start + len(word))
    if len(word) > 1 and word[0] == "#":
        advice, edit = _NO_PREPROCESSOR, None
    else:
        advice = _ADVICE.get(word) or _ADVICE.get(word[0])
        edit = _EDITS.get(word) or _EDITS.get(word[0])
    if word == "'" and source.text[start - 1 : start].isalnum():
        advice, edit = _ADVICE["ᵀ"], (".T", "write '.T'")
    fixes = (Fix(span, *edit, Applicability.MACHINE_APPLICABLE),) if edit else ()
    shown = _short(word) if word.isprintable() else f"U+{ord(word[0]):04X}"
    if advice is None and not word.isascii():
        advice = "names and operators are ASCII; other characters may stand in comments"
    helps = (advice,) if advice else ()
    message = f"unexpected character '{shown}'"
    _report(sink, Diagnostic("MU0002", message, span, helps=helps, fixes=fixes, source=source))


def _report(sink: DiagnosticSink, diagnostic: Diagnostic) -> None:
    if _has_room(sink):
        sink.emit(diagnostic)


def _has_room(sink: DiagnosticSink) -> bool:
    """Whether fewer errors than `MAX_ERRORS` were reported."""
    return len(sink.diagnostics) < MAX_ERRORS


def _short(word: str) -> str:
    return word if len(word) <= 32 else word[:29] + "..."
