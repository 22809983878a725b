"""Turns on the GPU: alone or together, among threads and among processes."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
import time

import pytest
from processes import wait_for

from mucc.process.gpu_lock import exclusive_gpu, shared_gpu

HOLD = """
import sys
from mucc.process import gpu_lock
with getattr(gpu_lock, sys.argv[1])():
    print("in", flush=True)
    sys.stdin.read()
"""


pytestmark = pytest.mark.usefixtures("own_gpu_locks")


def test_sharing_goes_together_and_measuring_alone():
    inside, together = threading.Event(), threading.Event()

    def measure() -> None:
        with exclusive_gpu():
            inside.set()

    with shared_gpu():
        with shared_gpu():
            together.set()
        thread = threading.Thread(target=measure)
        thread.start()
        assert not inside.wait(0.05)
    assert together.is_set() and inside.wait(300)
    thread.join()


def test_who_measures_comes_before_who_shares():
    order: list[str] = []
    started = [threading.Event(), threading.Event()]

    def measure() -> None:
        started[0].set()
        with exclusive_gpu():
            order.append("measure")

    def share() -> None:
        started[1].set()
        with shared_gpu():
            order.append("share")

    with shared_gpu():
        threads = [threading.Thread(target=measure), threading.Thread(target=share)]
        threads[0].start()
        wait_for(lambda: _waiting() == 1)
        threads[1].start()
        assert started[1].wait(300)
    for thread in threads:
        thread.join(300)
    assert order == ["measure", "share"]


def _waiting() -> int:
    from mucc.process import gpu_lock

    turns = gpu_lock._turns  # pyright: ignore[reportPrivateUsage]
    return sum(t.waiting for t in turns.values())


@pytest.mark.parametrize(("theirs", "waits"), [("exclusive_gpu", True), ("shared_gpu", False)])
def test_processes_take_turns(theirs: str, waits: bool):
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, theirs], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdin and other.stdout and other.stdout.readline() == "in\n"
    inside = threading.Event()

    def share() -> None:
        with shared_gpu():
            inside.set()

    thread = threading.Thread(target=share)
    thread.start()
    assert inside.wait(0.05 if waits else 300) is not waits
    other.stdin.close()
    assert inside.wait(300)
    thread.join()
    other.wait()
    other.stdout.close()


def test_a_forked_process_keeps_no_lock():
    """It has the parent's descriptors, and outlives the parent's turn."""
    with exclusive_gpu():
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(300,), daemon=True)
        child.start()
    try:
        other = subprocess.run(
            [sys.executable, "-c", HOLD, "exclusive_gpu"],
            input="",
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert other.stdout == "in\n"
    finally:
        child.kill()
        child.join()
