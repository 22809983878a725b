"""Pages that are too wide for a screen, or too pale to read, are found."""

from __future__ import annotations

from pathlib import Path

import pytest
from screens import BROWSERS, browser_command, too_pale, too_wide

PAGE = """<!doctype html><style>
[data-md-color-scheme=dark] { background: #000; }
.faint { color: #999; } .half { opacity: 0.5; } .big { color: #949494; font-size: 30px; }
.veil { background: rgba(0, 0, 0, 0.5); }
</style><body style="background: #fff"><p class=good>good</p><p class=faint>faint</p><p class=big>big</p>
<div class=half><p class=within>within</p></div><p class="veil dim">dim</p><p class=faint hidden>hidden</p>
<div style="width: WIDEpx">text</div></body>"""


def test_what_is_wrong_with_a_page_is_found(tmp_path: Path):
    (tmp_path / "good.html").write_text("<!doctype html><p>good")
    (tmp_path / "bad.html").write_text(PAGE.replace("WIDE", "700"))
    assert too_wide(tmp_path, ["/good.html", "/bad.html"], 390) == ["/bad.html is 708 wide"]
    found = too_pale(tmp_path, ["/good.html", "/bad.html"], 390, ("default",))
    assert [line.split(" ")[2] for line in found] == ["p.faint", "p.within"], found


def test_a_browser_may_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    named, found = tmp_path / "my-chromium", tmp_path / BROWSERS[1]
    for program in (named, found):
        program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MUCC_BROWSER", raising=False)
    assert browser_command() == str(found)
    monkeypatch.setenv("MUCC_BROWSER", str(named))
    assert browser_command() == str(named)
    monkeypatch.setenv("MUCC_BROWSER", "nowhere")
    with pytest.raises(AssertionError, match="nowhere"):
        browser_command()
    monkeypatch.delenv("MUCC_BROWSER")
    found.unlink()
    with pytest.raises(pytest.skip.Exception, match="MUCC_BROWSER"):
        browser_command()
