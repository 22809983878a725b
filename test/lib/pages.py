"""Pages of reports, read strictly."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from mucc.agent.report.markup import VOID
from mucc.agent.report.style import SCRIPT

ELEMENTS = frozenset(
    re.findall(
        r"\w+",
        "html head meta title style body h1 h2 h3 h4 h5 h6 p a b i em strong small code pre span div section"
        " table thead tbody tr th td dl dt dd ul ol li details summary figure figcaption svg line polyline"
        " circle rect text button select option script hr br blockquote",
    )
)
ATTRIBUTES = re.compile(
    r"(lang|charset|http-equiv|content|name|class|id|href|type|value|data-(act|sort|status)|aria-label|role|start"
    r"|style|viewbox|points|c?[xy][12]?|r|width|height|text-anchor|transform)"
)


class Reader(HTMLParser):
    """Reads a page strictly: balanced, and only of what the report itself makes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.scripts = 0
        self.said: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS, tag
        for name, value in attrs:
            assert ATTRIBUTES.fullmatch(name), name
            if name == "href":
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")
            if name == "style":
                assert re.fullmatch(r"text-align:(left|right|center)", value or "")
        self.scripts += tag == "script"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            assert data == SCRIPT
        elif self.open and self.open[-1] != "style":
            self.said.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def read(html: str) -> Reader:
    """A page of a report; fails where it has anything that reports do not make."""
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == [] and reader.scripts == 1
    assert len(set(reader.ids)) == len(reader.ids)
    for link in reader.links:
        assert link.startswith("#") and link[1:] in reader.ids, link
    return reader
