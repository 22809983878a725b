"""Pages in a browser, as wide as screens are."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

WIDTHS = (390, 1280)
"""Of a telephone and of a small laptop, in pixels."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")
"""Chromium by the names that distributions give it."""

PROBE = """<!doctype html><body><script>
const pages = PAGES, width = WIDTH, found = [];
LOOK
async function open(page) {
  const frame = document.createElement('iframe');
  frame.style.cssText = `width:${width}px;height:900px;border:0`;
  frame.src = page;
  document.body.append(frame);
  await new Promise(done => frame.onload = done);
  look(frame.contentDocument, frame.contentWindow, page);
  frame.remove();
}
(async () => {
  for (const page of pages) await open(page);
  return JSON.stringify(found);
})().catch(error => `failed: ${error}`).then(body => fetch('/', {method: 'POST', body}));
</script>"""

WIDE = """
function look(page, window, name) {
  if (page.documentElement.scrollWidth > width + 1)
    found.push(`${name} is ${page.documentElement.scrollWidth} wide`);
}"""

PALE = """
const schemes = SCHEMES;
function parts(color) {  // red, green and blue from 0 to 1, and alpha
  const n = color.match(/[-\\d.]+(e-\\d+)?/g).map(Number), alpha = n.length > 3 ? n[3] : 1;
  return color.startsWith('color(') ? [n[0], n[1], n[2], alpha] : [n[0] / 255, n[1] / 255, n[2] / 255, alpha];
}
function over(top, below) {
  return [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
}
function luminance(color) {  // of WCAG 2
  const [r, g, b] = color.map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function ground(window, element, known) {  // the colour behind an element, and how opaque it is
  if (!element) return [[1, 1, 1, 1], 1];
  if (!known.has(element)) {
    const [below, opacity] = ground(window, element.parentElement, known);
    const style = window.getComputedStyle(element);
    known.set(element, [over(parts(style.backgroundColor), below), opacity * style.opacity]);
  }
  return known.get(element);
}
function look(page, window, name) {
  const still = page.createElement('style');
  still.textContent = '* { transition: none !important; animation: none !important; }';
  page.head.append(still);
  for (const scheme of schemes) {
    page.body.setAttribute('data-md-color-scheme', scheme);
    const known = new Map(), seen = new Set(), words = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
    while (words.nextNode()) {
      const element = words.currentNode.parentElement, text = words.currentNode.textContent.trim();
      if (!text || !element.getClientRects().length) continue;
      const style = window.getComputedStyle(element), [paper, opacity] = ground(window, element, known);
      const ink = parts(style.color);
      if (style.visibility === 'hidden' || !opacity || !ink[3]) continue;
      ink[3] *= opacity;
      const [dark, light] = [luminance(over(ink, paper)), luminance(paper)].sort((a, b) => a - b);
      const ratio = (light + 0.05) / (dark + 0.05), size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
      const what = `${element.tagName.toLowerCase()}.${[...element.classList].join('.')}`;
      if (ratio < (large ? 3 : 4.5) && !seen.has(what)) {
        seen.add(what);
        found.push(`${name} ${scheme}: ${what} "${text.slice(0, 30)}" ${ratio.toFixed(2)} ${style.color}`);
      }
    }
  }
}"""


def too_wide(folder: Path, pages: Sequence[str], width: int, *flags: str) -> list[str]:
    """Return which pages of a folder, by their addresses, are wider than a screen; skip without a browser."""
    return _look(folder, pages, width, WIDE, *flags)


def too_pale(folder: Path, pages: Sequence[str], width: int, schemes: Sequence[str]) -> list[str]:
    """Return which words of pages have less contrast than level AA of WCAG 2 asks for, in some schemes.

    It asks for 4.5, and for 3 in large letters. Schemes are those of mkdocs-material. Skip without a browser.
    """
    return _look(folder, pages, width, PALE.replace("SCHEMES", json.dumps(list(schemes))))


def browser_command() -> str:
    """Return the path of a browser: MUCC_BROWSER, or the first of BROWSERS; skip where there is none.

    A browser that MUCC_BROWSER names and that is not there is an error: no test is skipped unnoticed.
    """
    if named := os.environ.get("MUCC_BROWSER"):
        found = shutil.which(named)
        assert found, f"MUCC_BROWSER names '{named}', which is no program"
        return found
    if found := next(filter(None, map(shutil.which, BROWSERS)), None):
        return found
    return pytest.skip("needs chromium: apt-get install chromium, or MUCC_BROWSER=PATH of a Chromium")


def _look(folder: Path, pages: Sequence[str], width: int, look: str, *flags: str) -> list[str]:
    """Open pages in a browser, run a function `look` in each, and return what it pushes to `found`."""
    chromium = browser_command()
    text = PROBE.replace("PAGES", json.dumps(list(pages))).replace("WIDTH", str(width))
    (folder / "probe.html").write_text(text.replace("LOOK", look))
    said: SimpleQueue[str] = SimpleQueue()
    handler = functools.partial(Site, said, directory=str(folder))
    size = f"--window-size={max(width, 600) + 40},1000"
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        tempfile.TemporaryDirectory() as profile,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/probe.html"
        common = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", *flags]
        with subprocess.Popen(
            [chromium, *common, size, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as browser:
            try:
                found = said.get(timeout=300)
            finally:
                browser.terminate()
                browser.wait(30)
                server.shutdown()
    (folder / "probe.html").unlink()
    assert found.startswith("["), found
    return json.loads(found)


class Site(http.server.SimpleHTTPRequestHandler):
    """A server of files that puts what pages send into a queue, and says nothing."""

    def __init__(self, said: SimpleQueue[str], *words: Any, **more: Any):
        self.said = said
        super().__init__(*words, **more)

    def do_POST(self) -> None:
        self.said.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass
