"""The documentation site: built strictly, without broken links, no page wider than a screen, and legible."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from screens import WIDTHS, too_pale, too_wide

pytest.importorskip("mkdocs", reason="needs mkdocs: pip install 'mucc[docs]'")
pytest.importorskip("material", reason="needs mkdocs-material: pip install 'mucc[docs]'")
pytest.importorskip("mkdocstrings", reason="needs mkdocstrings: pip install 'mucc[docs]'")
pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


class Page(HTMLParser):
    """The links of a page, and the places in it that links may name."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.places |= {given[name] or "" for name in ("id", "name") if name in given}
        if tag in ("a", "img", "script", "link"):
            self.links += [given[name] or "" for name in ("href", "src") if given.get(name)]


def test_no_link_is_broken(site: Path):
    pages = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 90
    broken: list[str] = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"\w+:|//", link):
                continue
            target, _, place = link.partition("#")
            to = (path.parent / unquote(target)).resolve() if target else path
            to = to / "index.html" if to.is_dir() else to
            if not to.exists() or (place and to in pages and unquote(place) not in pages[to].places):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


def test_every_page_is_in_the_search(site: Path):
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    pages = {str(p.parent.relative_to(site)) + "/" for p in site.rglob("index.html")}
    assert {p for p in pages if p != "./"} <= found


WIDE = (
    "schedules",
    "language",
    "runtime",
    "api",
    "editors",
    "figures",
    "compatibility",
    "agent/profile",
    "project/overview",
    "project/benchmarks",
    "reference/commands",
    "reference/api/schedules",
    "decisions/0044-attention-computes-scores-without-branches",
)
"""Pages with wide tables, long lines of code, and long names."""


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_the_screen(site: Path, width: int):
    assert all((site / page / "index.html").exists() for page in WIDE)
    assert too_wide(site, [f"/{page}/" for page in WIDE], width) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_words_have_contrast_in_both_schemes(site: Path, width: int):
    assert too_pale(site, [f"/{page}/" for page in WIDE], width, ("default", "slate")) == []
