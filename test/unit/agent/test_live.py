"""Watchers of a run: lines, the live view, and that neither ever breaks a run."""

from __future__ import annotations

import io

import pytest
from agentruns import CHANGE, TASK, make_task, outcome, play
from terminals import HIDE, SHOW, Terminal, drawn, on_a_terminal

from mucc.agent.core.attempts import Attempt
from mucc.agent.report.live import Live, Quiet, make


def test_lines():
    stream = io.StringIO()
    progress = make(stream)
    play(progress)
    progress.closed()
    progress.closed()
    assert stream.getvalue().splitlines() == [
        "mucc-agent: 2 tasks, at most 80 attempts",
        "mucc-agent: gemm/square: running",
        "mucc-agent: gemm/square: measure: default 2 ms",
        "mucc-agent: gemm/square: #0 good, 0.9 ms, 2.22x over default, 1.11x over tf32, 0.89x over compile,"
        " best so far: as imported",
        "mucc-agent: gemm/square: #1 good, 0.5 ms, 4.00x over default, 2.00x over tf32, 1.60x over compile,"
        " best so far: tile = 128x256x64 stages = 4",
        "mucc-agent: gemm/square: #2 repeated, as #1: tile = 128x256x64 stages = 4",
        "mucc-agent: gemm/square: openai: 429: slow down",
        "mucc-agent: gemm/square: done: within 25% of the speed of light",
        "mucc-agent: 1 of 2 tasks, 1 attempts, 0 s, 100 tokens, $0.50",
    ]


def test_what_is_drawn():
    live = Live(Terminal())
    live.task(TASK, "running")
    live.task(TASK, "nominate", "2 hypotheses")
    assert "nominate 2 hypotheses" in drawn(live)
    for number in (3, 4, 5):
        live.started(TASK.key, number, CHANGE)
        live.stage(TASK.key, number, "build")
    live.stage(TASK.key, 5, "run")
    assert "2 build, 1 run 0 s" in drawn(live)
    live.finished(TASK.key, Attempt(3, CHANGE, outcome(0.5)), 0.5)
    live.finished(TASK.key, Attempt(4, CHANGE, outcome(None)), 0.5)
    text = drawn(live)
    assert "#5 run: tile = 128x256x64 stages = 4" in text
    row = "gemm/square running 2 0.5 1.00 4.00 2.00 1.60"
    assert text.splitlines()[2].split()[:8] == row.split()
    assert "4.00x over PyTorch on 1" in text
    live.task(TASK, "done", "[red]stop[/]\x1b[2J" + "x" * 300)
    text = drawn(live, 80)
    assert "[red]stop[/]" in text and "\x1b" not in text and max(map(len, text.splitlines())) <= 80


def test_more_tasks_than_lines():
    live = Live(Terminal())
    for i in range(100):
        live.task(make_task(f"t/{i}"), "running" if i > 95 else "waiting")
    text = drawn(live)
    assert len(text.splitlines()) < 40 and "t/99 " in text and "t/60" not in text and "and 66 more" in text


def test_events_of_tasks_that_nobody_named_do_no_harm():
    live = Live(Terminal())
    live.started("?", 0, CHANGE)
    live.stage("?", 0, "build")
    live.finished("?", Attempt(0, CHANGE, outcome(1.0)), 1.0)
    assert "0 of 0 tasks" in drawn(live)


@pytest.mark.parametrize("terminal", [False, True])
def test_a_stream_that_is_gone_does_no_harm(terminal: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal() if terminal else io.StringIO()
    progress = make(stream)
    progress.opened(1, 40)
    stream.close()
    play(progress)
    progress.closed()


def test_quiet_says_nothing():
    stream = Terminal()
    progress = make(stream, quiet=True)
    assert isinstance(progress, Quiet)
    play(progress)
    assert stream.getvalue() == ""


PROGRAM = """
import sys, time
sys.path.insert(0, "test/lib")
from agentruns import play
from mucc.agent.report.live import make
progress = make(sys.stderr)
play(progress)
print("a warning", file=sys.stderr)
time.sleep(0.6)
progress.closed()
print("the end", file=sys.stderr)
"""


def test_a_terminal_shows_the_run_and_is_clean_afterwards():
    status, text = on_a_terminal(PROGRAM)
    assert status == 0
    assert "gemm/square" in text and "a warning" in text and "1 of 2 tasks" in text
    assert text.count(HIDE) == text.count(SHOW) == 1 and "the end" in text[text.rindex(SHOW) :]
