"""What limits of time charge processes for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from mucc.process import charge
from mucc.process.charge import Charge, scheduled, waited_for_others

PIN = "import os, sys; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "

needs_schedule = pytest.mark.skipif(not scheduled(os.getpid()), reason="the system does not tell")


@contextmanager
def running(text: str, count: int) -> Generator[list[int]]:
    """Python processes on one processor, that have begun."""
    held = [
        subprocess.Popen([sys.executable, "-c", f"{PIN}print(flush=True); {text}"], stdout=subprocess.PIPE)
        for _ in range(count)
    ]
    try:
        for process in held:
            assert process.stdout
            process.stdout.readline()
        yield [process.pid for process in held]
    finally:
        for process in held:
            process.kill()
            process.communicate()


def charged(pids: list[int], seconds: float, beside: list[int] | None = None) -> Charge:
    made = Charge()
    made.begin([*pids, *(beside or ())])
    time.sleep(seconds)
    made.add(pids, beside or ())
    return made


@needs_schedule
def test_time_that_others_take_is_not_charged():
    with running("exec('while True: pass')", 5) as (ours, *_):
        found = charged([ours], 2.0)
    assert found.wall >= 2.0 and found.seconds < 0.5 * found.wall
    assert found.computed == pytest.approx(found.seconds, abs=0.2)


def test_who_sleeps_is_charged():
    with running("import time; time.sleep(600)", 1) as pids:
        found = charged(pids, 0.5)
    assert found.seconds == pytest.approx(found.wall, abs=0.1) and found.computed < 0.1


@needs_schedule
def test_time_that_others_take_from_who_is_waited_for_is_not_charged():
    with (
        running("exec('while True: pass')", 5) as (judge, *_),
        running("import time; time.sleep(600)", 1) as sleeper,
    ):
        assert charged(sleeper, 1.0, [judge]).seconds < 0.6


def test_who_waits_for_a_disk_is_not_charged(monkeypatch: pytest.MonkeyPatch):
    with running("import time; time.sleep(600)", 1) as pids:
        monkeypatch.setattr(charge, "WAITS_FOR_A_DISK", b"S")
        found = charged(pids, 0.3)
    assert found.seconds == 0 and found.wall >= 0.3


def test_who_waits_for_a_process_is_charged(monkeypatch: pytest.MonkeyPatch):
    text = "import subprocess; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    with running(text, 1) as (parent,):
        until = time.monotonic() + 60
        while not (found := charge.children(parent)) and time.monotonic() < until:
            time.sleep(0.01)
        monkeypatch.setattr(charge, "WAITS_FOR_A_DISK", b"S")
        assert not charge._waits_for_a_disk([parent])  # pyright: ignore[reportPrivateUsage]
        os.kill(found[0], 9)


def test_threads_that_wait_for_each_other_are_no_noise():
    assert waited_for_others(0.5, on=2.0, whole=2.0) == 0.0
    assert waited_for_others(0.5, on=1.0, whole=2.0) == 0.5
    assert waited_for_others(0.5, on=1.8, whole=2.0) == pytest.approx(0.2)
