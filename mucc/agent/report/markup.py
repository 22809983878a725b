"""HTML and SVG as strings in which every text is escaped unless it is markup already."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

VOID = frozenset(("meta", "br", "hr", "col"))
"""Elements of HTML without an end."""

SHAPES = frozenset(("line", "rect", "circle", "path", "polyline"))
"""Elements of SVG that are written closed when they are empty."""

CONTROL = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]"
)
"""What no page should hold: controls, halves of characters, and marks that turn the direction of text."""


class Markup(str):
    """A string that is markup: it is put into a page as it is."""

    __slots__ = ()


Child = str | Markup | None


def escape(text: str) -> Markup:
    """Return a text of whatever origin, for the inside of an element or of an attribute in quotes."""
    return Markup(html.escape(CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)))


def join(children: Iterable[Child], between: str = "") -> Markup:
    """Children one after another."""
    return Markup(between.join(c if isinstance(c, Markup) else escape(c) for c in children if c is not None))


def h(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """Return an element. `cls` is its class; other names have - for _; True stands for an attribute without a
    value, and None or False for none.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        word = "class" if key == "cls" else key.replace("_", "-")
        if value is True:
            parts.append(f" {word}")
        elif isinstance(value, str):
            parts.append(f' {word}="{escape(value)}"')
        else:
            parts.append(f' {word}="{value:.6g}"')
    if name in SHAPES and not children:
        return Markup("".join((*parts, "/>")))
    if name in VOID:
        return Markup("".join((*parts, ">")))
    return Markup("".join((*parts, ">", join(children), f"</{name}>")))


@cache
def _reader() -> MarkdownIt:
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False})
    return reader.enable("table").disable(
        ["link", "image", "autolink", "reference", "html_block", "html_inline"]
    )


def markdown(text: str) -> Markup:
    """Markdown that anyone may have written: no HTML, no links, no pictures."""
    return Markup(_reader().render(CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)))
