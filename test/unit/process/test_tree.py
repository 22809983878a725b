"""How much memory processes take together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mucc.process import tree

MIB = 1 << 20


@contextmanager
def child(prepare: Callable[[], object]) -> Generator[int]:
    """Fork a process that holds what a function returns."""
    reading, writing = os.pipe()
    if not (pid := os.fork()):
        held = prepare()
        os.write(writing, b".")
        signal.pause()
        os._exit(len(repr(held)))
    os.read(reading, 1)
    os.close(reading)
    os.close(writing)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def file_in_memory() -> int:
    fd = os.memfd_create("held")
    for _ in range(48):
        os.write(fd, bytes(MIB))
    return fd


def test_files_in_memory_count_that_no_process_maps():
    with child(file_in_memory) as pid, child(int) as other:
        assert tree.held([pid]) - tree.held([other]) > 47 * MIB
        assert tree.held([pid, pid]) < 2 * tree.held([pid]) - 47 * MIB, "one file counts once"


def test_memory_of_all_counts():
    with (
        child(lambda: bytearray(os.urandom(1) * 32 * MIB)) as one,
        child(lambda: bytearray(b"." * 32 * MIB)) as two,
    ):
        assert tree.held([one, two]) > 64 * MIB


SHARING = f"""
import os, signal
held = bytearray(b"." * 64 * {MIB})
for _ in range(2):
    if not os.fork():
        os.write(1, b"%d\\n" % os.getpid())  # in one piece: the other one writes, too
        signal.pause()
signal.pause()
"""


def test_what_processes_share_counts_once_where_it_is_much(monkeypatch: pytest.MonkeyPatch):
    # A process of its own: what this one has taken may be more than what its children share.
    command = [sys.executable, "-c", SHARING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as parent:
        assert parent.stdout
        pids = [parent.pid]
        try:
            pids += (int(parent.stdout.readline()) for _ in range(2))
            each = tree.held(pids)
            monkeypatch.setattr(tree, "MUCH", 0)
            together = tree.held(pids)
            rollups = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids]
        finally:
            os.killpg(parent.pid, signal.SIGKILL)
    assert each > 3 * 64 * MIB and 64 * MIB < together < 2 * 64 * MIB, rollups


def test_processes_that_have_ended_take_nothing():
    assert tree.held([2**22 + 5]) == 0
