"""Displays: which one a stream gets, what they write, and that a terminal is left as it was."""

import io
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import HANG, wait_for
from terminals import HIDE, ROOT, SHOW, Terminal, drawn, on_a_terminal

from mucc.build import progress
from mucc.build.jobs import Job, Kind, Result
from mucc.build.progress import Lines, Live, Quiet, display

JOB = Job("gelu.mcu", "device code of stage out", Kind.DEVICE, ("x",))
OTHER = Job("silu.mcu", "link", Kind.LINK, ("x",))


def result(seconds: float = 31.04, peak: int = 3_700_000_000) -> Result:
    return Result({}, "", 0, seconds, peak)


def test_which_display_a_stream_gets(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm")
    assert type(display(io.StringIO())) is Quiet
    assert type(display(io.StringIO(), verbose=True)) is Lines
    assert type(display(Terminal())) is Live
    assert type(display(Terminal(), json=True, verbose=True)) is Quiet
    monkeypatch.setenv("TERM", "dumb")
    assert type(display(Terminal())) is Quiet
    closed = Terminal()
    closed.close()
    assert type(display(closed)) is Quiet


def test_lines():
    stream = io.StringIO()
    lines = Lines(stream)
    lines.opened(2, 10)
    lines.queued(JOB)
    lines.started(JOB, 3)
    lines.finished(JOB, result())
    lines.failed(OTHER, "reason")
    lines.cached("a.mcu", "host code")
    lines.done("a.mcu")
    lines.closed()
    assert stream.getvalue().splitlines() == [
        "mucc: gelu.mcu: device code of stage out: started",
        "mucc: gelu.mcu: device code of stage out: 31.0 s, 3700 MB",
        "mucc: silu.mcu: link: failed",
        "mucc: a.mcu: host code: found in the cache",
    ]


def test_a_stream_that_is_gone_does_no_harm():
    stream = io.StringIO()
    stream.close()
    Lines(stream).started(JOB, 3)


@pytest.mark.parametrize(("seconds", "text"), [(0.9, "0 s"), (59.9, "59 s"), (60, "1:00"), (3671, "61:11")])
def test_clock(seconds: float, text: str):
    assert progress.clock(seconds) == text


def test_what_is_drawn():
    live = Live(Terminal())
    live.opened(2, 20_000_000_000)
    live.expected(3)
    for job in (JOB, JOB, OTHER, OTHER):
        live.queued(job)
    live.started(JOB, 3_700_000_000)
    live.started(JOB, 3_700_000_000)  # the same job, twice at once
    live.started(OTHER, 100_000_000)
    live.dropped(OTHER)
    live.done("gelu.mcu")
    live.finished(JOB, result())
    text = drawn(live)
    assert "1 of 3 programs" in text and "2 running, 0 waiting" in text and "3.8 of 20 GB" in text
    assert re.search(r"gelu\.mcu +device code of stage out +\d+ s", text)
    assert text.count("gelu.mcu") == 1 and "silu.mcu" in text
    live.failed(OTHER, "no")
    for i in range(progress.MAX_ROWS + 4):
        live.started(Job(f"{i}.mcu", "s", Kind.LINK, ("x",)), 1)
    assert "and 5 more" in drawn(live)
    live.closed()


def test_counting_begins_anew_when_all_is_done():
    live = Live(Terminal())
    live.opened(2, 1)
    for _ in range(2):
        live.expected(2)
        live.queued(JOB)
        live.started(JOB, 1)
        live.done("a")
        assert "1 of 2 programs" in drawn(live)
        live.finished(JOB, result())
        live.done("b")
    assert "programs" not in drawn(live) and "0 running, 0 waiting" in drawn(live)
    live.closed()


def test_a_long_name_is_cut_and_markup_is_text():
    live = Live(Terminal())
    live.opened(2, sys.maxsize)
    live.started(Job("[red]" + "x" * 300, "[/] stage", Kind.LINK, ("x",)), 1)
    text = drawn(live, 100)
    assert "[red]xxx" in text and max(map(len, text.splitlines())) <= 100 and len(text.splitlines()) == 2
    assert "0.0 GB" in text
    live.closed()


def test_it_leaves_while_others_write_and_at_the_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    live = Live(stream)

    def shown() -> int:
        """How many displays there are now."""
        text = stream.getvalue()
        return text.count(HIDE) - text.count(SHOW)

    live.started(JOB, 1)
    wait_for(lambda: shown() > 0)
    with live.paused():
        assert shown() == 0
        with live.paused():
            pass
        time.sleep(0.05)
        assert shown() == 0
    wait_for(lambda: shown() > 0)
    live.closed()
    assert shown() == 0
    live.started(JOB, 1)
    live.closed()


def test_nothing_appears_and_rich_is_not_loaded_for_what_is_short():
    program = """
import io, sys
from mucc.build.jobs import Job, Kind, Result
from mucc.build import progress
from mucc.build.progress import Live
progress.PATIENCE = 300
class Terminal(io.StringIO):
    def isatty(self): return True
stream = Terminal()
live = Live(stream)
job = Job("p", "s", Kind.LINK, ("x",))
live.opened(1, 1)
for _ in range(3):
    live.queued(job); live.started(job, 1); live.finished(job, Result({}, "", 0, 0.0, 0))
live.closed()
assert stream.getvalue() == "" and "rich" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=HANG)


PROGRAM = """
import sys, time
from mucc.build.jobs import Job, Kind
from mucc.build.pool import Pool
from mucc.build.progress import display
show = display(sys.stderr, verbose=len(sys.argv) > 2)
wait = f"until [ -e '{sys.argv[1]}' ]; do sleep 0.01; done"
job = lambda i: Job(f"k{i}.mcu", "link", Kind.LINK, ("sh", "-c", wait))
try:
    with Pool(2, 10**9, display=show) as pool:
        for outcome in pool.map(lambda i: pool.run(job(i)), range(2)):
            with show.paused():
                print(f"outcome {outcome.error}", file=sys.stderr)
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    sys.exit(9)
"""


def test_a_terminal_shows_what_runs_and_is_clean_afterwards(tmp_path: Path):
    go = tmp_path / "go"  # the jobs end once both were shown
    status, text = on_a_terminal(PROGRAM, str(go), "verbose", at=b"2 running", act=lambda _: go.touch())
    assert status == 0
    assert "k0.mcu" in text and "2 running" in text and "0 of 2 programs" in text
    assert text.count(HIDE) == text.count(SHOW) > 0 and text.rindex(SHOW) > text.rindex(HIDE)
    assert text.count("outcome None") == 2 and re.search(r"mucc: k1\.mcu: link: \d+\.\d s", text)
    assert "running" not in text[text.rindex(SHOW) :]


def test_ctrl_c_restores_the_terminal(tmp_path: Path):
    never = str(tmp_path / "never")
    status, text = on_a_terminal(PROGRAM, never, at=b"k1.mcu", act=lambda p: p.send_signal(signal.SIGINT))
    assert status == 9
    assert text.count(HIDE) == text.count(SHOW) > 0 and text.rindex(SHOW) > text.rindex(HIDE)
    assert "interrupted" in text[text.rindex(SHOW) :]
