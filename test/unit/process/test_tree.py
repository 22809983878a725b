"""How much memory processes take together."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from processes import gone, wait_for

from mucc.process import tree

MIB = 1 << 20


WHOLE = 1 << 40
"""More than processes here hold, whatever this one has taken: what they share is not found out."""


@pytest.fixture(autouse=True)
def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count what each process has, but where a test says otherwise."""
    monkeypatch.setattr(tree, "MUCH", WHOLE)


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


def shared_mapping() -> mmap.mmap:
    found = mmap.mmap(-1, 48 * MIB)
    for at in range(0, len(found), mmap.PAGESIZE):
        found[at] = 1
    return found


def file_on_its_way() -> object:
    pair = socket.socketpair()
    fd = os.memfd_create("held")
    socket.send_fds(pair[0], [b"."], [fd])
    os.close(fd)
    return pair


@pytest.mark.parametrize("much", [WHOLE, 0])
def test_mappings_that_processes_share_count(monkeypatch: pytest.MonkeyPatch, much: int):
    monkeypatch.setattr(tree, "MUCH", much)
    with child(shared_mapping) as one, child(shared_mapping) as two, child(int) as other:
        assert tree.held([one, two]) - tree.held([other]) > 94 * MIB


def test_files_that_no_process_has_count():
    with child(file_on_its_way) as pid, child(socket.socketpair) as other:
        if not any("scm_fds" in path.read_text() for path in Path(f"/proc/{pid}/fdinfo").iterdir()):
            pytest.skip("this kernel does not tell")
        assert tree.held([pid]) > tree.MUCH > tree.held([other])


def test_sockets_count():
    with child(lambda: [socket.socketpair() for _ in range(50)]) as pid, child(int) as other:
        assert tree.held([pid]) - tree.held([other]) > 100 * 100_000


ORPHANS = r"""
import os, time
for _ in range(2):
    if not os.fork():
        if not os.fork():
            os.write(1, b"%d\n" % os.getpid())  # in one piece
            os.setsid()
            time.sleep(600)
        os._exit(0)
    os.wait()
time.sleep(600)
"""


def subreaper() -> None:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def test_orphans_belong_to_the_family_and_end_with_it():
    leader = subprocess.Popen(
        [sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE, preexec_fn=subreaper, start_new_session=True
    )
    assert leader.stdout
    orphans = [int(leader.stdout.readline()) for _ in range(2)]
    family = tree.Family(leader.pid)

    def is_whole() -> bool:
        return family.wait(0, ()) is tree.End.OVERDUE and len(family.pids) == 1 + len(orphans)

    wait_for(is_whole)  # their own parents may not have ended yet
    family.end()
    assert all(map(gone, orphans))
    leader.stdout.close()


def test_children_of_an_ancestor_count_without_it():
    with child(lambda: os.fork() or signal.pause()) as pid:
        (grandchild,) = tree.children(pid)
        family = tree.Family(grandchild, ancestor=pid)
        family.wait(0, ())
        assert len(family.pids) == 1
        os.kill(grandchild, signal.SIGKILL)


def test_processes_that_have_ended_take_nothing():
    assert tree.held([2**22 + 5]) == 0
