"""Processes are stopped for a while, with all that they started, and go on where they were."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from processes import HANG

from mucc.process import pausing
from mucc.process.pausing import descendants, parent, pause, resume

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")

FAMILY = """
import os, threading, time
if not os.fork():
    os.setsid()  # a group of its own
threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()
os.write(1, b"%d\\n" % os.getpid())  # in one piece, for both write here
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread stops once it gets a processor, which takes long on a busy machine."""
    monkeypatch.setattr(pausing, "STOPPING", HANG)


@pytest.fixture
def family() -> Iterator[list[int]]:
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        pids = [process.pid]
        try:
            pids += {int(process.stdout.readline()) for _ in range(2)} - {process.pid}
            yield pids
        finally:
            for pid in pids:
                os.kill(pid, 9)


def spent(pids: list[int]) -> list[int]:
    """The clock ticks of processors that processes took."""
    found: list[int] = []
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            found.append(int(file.read().rpartition(")")[2].split()[11]))
    return found


def states(pids: list[int]) -> set[str]:
    found: set[str] = set()
    for pid in pids:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii") as file:
                found.add(file.read().rpartition(")")[2].split()[0])
    return found


def test_nothing_of_a_stopped_family_runs(family: list[int]):
    leader, child = family
    assert descendants(leader) == [child] and parent(child) == leader
    paused = pause(leader)
    before = spent(family)
    assert paused == family and states(family) == {"T"}
    time.sleep(0.02)
    assert spent(family) == before
    started = time.perf_counter_ns()
    assert started <= resume(paused) <= time.perf_counter_ns()
    assert "T" not in states(family)


def test_an_ancestor_goes_on(family: list[int]):
    leader, child = family
    assert pause(child, leader) == [child] and states([child]) == {"T"}
    assert "T" not in states([leader])
    resume([child])


def test_who_has_ended_is_no_error(family: list[int]):
    assert pause(2**22 + 1) == [2**22 + 1] and resume([2**22 + 1]) > 0
    assert parent(2**22 + 1) is None and descendants(2**22 + 1) == []
