"""How much memory processes take together."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

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


def test_what_processes_share_counts_once_where_it_is_much(monkeypatch: pytest.MonkeyPatch):
    shared = bytearray(b"." * 64 * MIB)
    with child(lambda: shared) as one, child(lambda: shared) as two:
        each = tree.held([one, two])
        monkeypatch.setattr(tree, "MUCH", 0)
        together = tree.held([one, two])
    # Their parent has it, too: each of the three is counted with a third.
    assert len(shared) and together < each / 2


def test_processes_that_have_ended_take_nothing():
    assert tree.held([2**22 + 5]) == 0
