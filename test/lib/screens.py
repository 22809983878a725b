"""Pages in a browser, as wide as screens are."""

from __future__ import annotations

import functools
import http.server
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

WIDTHS = (390, 1280)
"""Of a telephone and of a small laptop, in pixels."""

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


def too_wide(folder: Path, pages: Sequence[str], width: int, *flags: str) -> list[str]:
    """Return which pages of a folder, by their addresses, are wider than a screen; skip without a browser."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs chromium: apt-get install chromium")
    text = PROBE.replace("PAGES", json.dumps(list(pages))).replace("WIDTH", str(width))
    (folder / "probe.html").write_text(text)
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/probe.html"
        common = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=120000", *flags]
        size = f"--window-size={max(width, 600) + 40},1000"
        command = [chromium, *common, size, "--dump-dom", address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        server.shutdown()
    (folder / "probe.html").unlink()
    match = re.search(r"found (\[.*\]) end", done.stdout)
    assert match, done.stdout[-500:] + done.stderr[-500:]
    found: list[str] = json.loads(match[1].replace("&quot;", '"'))
    return found


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that says nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass
