"""A lexer for Pygments, which documentation, notebooks and terminals highlight with."""

from __future__ import annotations

from typing import Any, ClassVar

from pygments.lexer import RegexLexer, bygroups, words  # pyright: ignore[reportUnknownVariableType]
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, Text, Whitespace

from mucc.editor.words import load

_WORDS = load()


def _any(*kinds: str, suffix: str = r"\b") -> words:
    """Match the words of some kinds."""
    return words([w for kind in kinds for w in _WORDS[kind]], prefix=r"\b", suffix=suffix)  # type: ignore[literal-required]


class McuLexer(RegexLexer):
    """Split `.mcu` programs into tokens."""

    name = "mucc"
    aliases: ClassVar = ["mcu", "mucc"]
    filenames: ClassVar = ["*.mcu"]
    mimetypes: ClassVar = ["text/x-mcu"]

    tokens: ClassVar[dict[str, Any]] = {
        "root": [
            (r"[ \t\r\n\f\v\ufeff]+", Whitespace),
            (r"//[^\n]*", Comment.Single),
            (
                r"(kernel)(\s+)(?:(each)(\s+))?([A-Za-z_]\w*)",
                bygroups(Keyword.Declaration, Whitespace, Keyword, Whitespace, Name.Function),
            ),
            (r"(fn)(\s+)([A-Za-z_]\w*)", bygroups(Keyword.Declaration, Whitespace, Name.Function)),
            (_any("declaring"), Keyword.Declaration),
            (_any("logical"), Operator.Word),
            (r"where(?=\()", Name.Builtin),
            (_any("keywords"), Keyword),
            (_any("constants"), Keyword.Constant),
            (_any("functions", suffix=r"(?=\s*\()"), Name.Builtin),
            (_any("types"), Keyword.Type),
            (_any("settings", "arguments", suffix=r"(?=\s*=)"), Name.Attribute),
            (_any("layouts", "values", "targets"), Name.Constant),
            (r"[0-9]+(?:x[0-9]+)+", Number),
            (r"[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+", Number.Float),
            (r"[0-9]+", Number.Integer),
            (r"[A-Za-z_]\w*(?=\s*\()", Name.Function),
            (r"[A-Za-z_]\w*", Name),
            (r"->|==|<=|>=|!=|[<>=+\-*/%@]", Operator),
            (r"\.\.\.|[()\[\]{},:.]", Punctuation),
            (r".", Text),
        ],
    }
