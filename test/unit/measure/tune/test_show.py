"""How a search is shown: a line on a terminal, lines in a log, nothing for programs."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
import tunelib
from terminals import Terminal

from mucc.measure.tune.building import Built
from mucc.measure.tune.folder import Failure
from mucc.measure.tune.search import Silent
from mucc.measure.tune.show import CLEAR, Lines, Live, watcher

KERNEL = tunelib.planned(budget=2).kernels[0]
SIZE, CANDIDATE = KERNEL.sizes[0], KERNEL.candidates[0]


@pytest.fixture
def live() -> Iterator[Live]:
    shown = Live(Terminal())
    yield shown
    shown.close()


def events(shown: Lines | Live) -> None:
    shown.began(KERNEL, "out", 3, 6)
    shown.built(Built(KERNEL, CANDIDATE, b"library"))
    shown.measured(KERNEL, SIZE, CANDIDATE, tunelib.record(KERNEL, SIZE, CANDIDATE, 200.0), False)
    shown.measured(KERNEL, SIZE, CANDIDATE, tunelib.record(KERNEL, SIZE, CANDIDATE, None), False)


def test_a_stream_gets_what_suits_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(watcher(Terminal()), Live)
    assert isinstance(watcher(io.StringIO()), Lines)
    assert type(watcher(Terminal(), json=True)) is Silent


def test_the_live_line(live: Live) -> None:
    events(live)
    line = live.line(200)
    assert line.startswith("f: 1 of 3 built, 2 of 6 measured, 1 failed, ")
    assert "M=4096,N=4096,K=4096: best 200.0 µs, 687 TFLOP/s, 69% of the bound 138.9 µs" in line
    assert len(live.line(60)) == 59


def test_the_live_line_goes_away(live: Live) -> None:
    events(live)
    live.ended(KERNEL, "out", "")
    assert isinstance(live.stream, io.StringIO) and live.stream.getvalue().endswith(CLEAR)
    assert live.line(200) == ""


def test_lines() -> None:
    stream = io.StringIO()
    shown = Lines(stream)
    events(shown)
    shown.built(Built(KERNEL, CANDIDATE, None, Failure("MU5106: nvcc ran out of memory", lasting=False)))
    shown.ended(KERNEL, "out", "within 5% of the bound: 1 not tried")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "mucc: f: 3 candidates to build, 6 measurements"
    assert "200.0 µs, 687 TFLOP/s" in lines[2] and "wrong" in lines[3] and "best 200.0 µs" in lines[3]
    assert lines[4].endswith("MU5106: nvcc ran out of memory") and lines[5].endswith("1 not tried")


def test_a_stream_that_is_gone_ends_nothing() -> None:
    stream = io.StringIO()
    stream.close()
    events(Lines(stream))
