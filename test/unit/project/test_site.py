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
const pages = PAGES, width = WIDTH, found = [];
async function look(page) {
  const frame = document.createElement('iframe');
  frame.style.cssText = `width:${width}px;height:900px;border:0`;
  frame.src = page;
  document.body.append(frame);
  await new Promise(done => frame.onload = done);
  const root = frame.contentDocument.documentElement;
  if (root.scrollWidth > width + 1) found.push(`${page} is ${root.scrollWidth} wide`);
  frame.remove();
}
(async () => {
  for (const page of pages) await look(page);
  document.getElementById('found').textContent = 'found ' + JSON.stringify(found) + ' end';
})();
</script>"""


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_the_screen(site: Path, width: int):
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs chromium: apt-get install chromium")
    assert all((site / page / "index.html").exists() for page in WIDE)
    text = PROBE.replace("PAGES", json.dumps([f"/{page}/" for page in WIDE])).replace("WIDTH", str(width))
    (site / "probe.html").write_text(text)
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/probe.html"
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=120000"]
        size = f"--window-size={max(width, 600) + 40},1000"
        command = [chromium, *flags, size, "--dump-dom", address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        server.shutdown()
    (site / "probe.html").unlink()
    match = re.search(r"found (\[.*\]) end", done.stdout)
    assert match, done.stdout[-500:] + done.stderr[-500:]
    assert json.loads(match[1].replace("&quot;", '"')) == []


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that says nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass
