"""The documentation site: built strictly, without broken links, and no page wider than a narrow screen."""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

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
    "compatibility",
    "agent/profile",
    "project/overview",
    "project/benchmarks",
    "reference/commands",
    "reference/api/schedules",
    "decisions/0044-attention-computes-scores-without-branches",
)
"""Pages with wide tables, long lines of code, and long names."""

PROBE = """<!doctype html><body><pre id=found>waiting</pre><script>
const pages = PAGES, width = WIDTH, scheme = SCHEME, found = new Set();
const numbers = colour => (colour.match(/[0-9.]+/g) || []).map(Number);
const part = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
const over = (top, below) => {
  const alpha = top.length > 3 ? top[3] : 1;
  return [0, 1, 2].map(i => top[i] * alpha + below[i] * (1 - alpha));
};
function behind(element) {
  const layers = [];
  for (let e = element; e; e = e.parentElement) layers.push(numbers(getComputedStyle(e).backgroundColor));
  return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
}
function contrast(element) {
  const ground = behind(element), ink = over(numbers(getComputedStyle(element).color), ground);
  const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}
async function look(page) {
  const frame = document.createElement('iframe');
  frame.style.cssText = `width:${width}px;height:900px;border:0`;
  frame.src = page;
  document.body.append(frame);
  await new Promise(done => frame.onload = done);
  const inside = frame.contentDocument, root = inside.documentElement;
  inside.body.setAttribute('data-md-color-scheme', scheme);
  if (root.scrollWidth > width + 1) found.add(`${page} is ${root.scrollWidth} wide`);
  for (const [kind, least] of [['p, li, td, th', 4.5], ['h1, h2, h3, a:not(.headerlink), code, pre span', 3]])
    for (const element of [...inside.querySelectorAll(kind)].slice(0, 200))
      if (element.textContent.trim() && element.closest('.md-content') && contrast(element) < least)
        found.add(`${element.tagName} ${element.className} of ${page}: ${contrast(element).toFixed(2)}`);
  frame.remove();
}
(async () => {
  for (const page of pages) await look(page);
  document.getElementById('found').textContent = 'found ' + JSON.stringify([...found].slice(0, 40)) + ' end';
})();
</script>"""


@pytest.mark.parametrize("scheme", ["default", "slate"])
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_are_readable(site: Path, width: int, scheme: str):
    """No page is wider than the screen; text has a contrast of 4.5, headings, links and code one of 3."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs chromium: apt-get install chromium")
    assert all((site / page / "index.html").exists() for page in WIDE)
    text = PROBE.replace("PAGES", json.dumps([f"/{page}/" for page in WIDE])).replace("WIDTH", str(width))
    (site / "probe.html").write_text(text.replace("SCHEME", json.dumps(scheme)))
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/probe.html"
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=120000"]
        quiet = ["--no-first-run", "--disable-background-networking", "--disable-component-update"]
        size = f"--window-size={max(width, 600) + 40},1000"
        command = [chromium, *flags, *quiet, "--disable-sync", size, "--dump-dom", address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        server.shutdown()
    (site / "probe.html").unlink()
    match = re.search(r"found (\[.*\]) end", done.stdout)
    assert match, done.stdout[-500:] + done.stderr[-500:]
    assert json.loads(match[1].replace("&quot;", '"').replace("&amp;", "&")) == []


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that says nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass
