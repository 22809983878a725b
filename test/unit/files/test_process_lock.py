"""Locks that a forked child finds free."""

import fcntl
import os
import subprocess
import sys
import threading
import types
from functools import cached_property
from pathlib import Path

import pytest
from processes import gone, lives, wait_for

from mucc.build.cache import locks
from mucc.files.process_lock import ProcessLock


def test_a_child_finds_it_free_while_a_thread_of_the_parent_holds_it():
    lock, taken, done = ProcessLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock.held():
            taken.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    if (child := os.fork()) == 0:
        found = threading.Thread(target=lambda: lock.held().__enter__())
        found.start()
        found.join(60)
        os._exit(found.is_alive())
    assert os.waitpid(child, 0)[1] == 0
    done.set()
    thread.join()


def test_a_child_may_be_forked_by_the_thread_that_holds_it():
    lock = ProcessLock()
    with lock.held():
        child = os.fork()
    if child == 0:
        with lock.held():
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


class Slow:
    began, may_end = threading.Event(), threading.Event()

    @cached_property
    def value(self) -> int:
        self.began.set()
        self.may_end.wait()
        return 1


def test_a_child_computes_a_property_that_a_thread_of_the_parent_computes(monkeypatch: pytest.MonkeyPatch):
    module = types.ModuleType("mucc.slow")
    module.Slow = Slow
    monkeypatch.setitem(sys.modules, module.__name__, module)
    thread = threading.Thread(target=lambda: Slow().value)
    thread.start()
    Slow.began.wait()
    if (child := os.fork()) == 0:
        Slow.may_end.set()
        found = threading.Thread(target=lambda: Slow().value, daemon=True)
        found.start()
        found.join(60)
        os._exit(found.is_alive())
    assert os.waitpid(child, 0)[1] == 0
    Slow.may_end.set()
    thread.join()


class Watched(types.ModuleType):
    """A module that counts how often somebody goes through it."""

    looks = 0

    @property
    def __dict__(self) -> dict[str, object]:  # pyright: ignore[reportIncompatibleVariableOverride]
        Watched.looks += 1
        return {}


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="there are no such locks")
def test_the_parent_goes_through_modules_once_and_children_never_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "mucc.watched", Watched("mucc.watched"))
    for _ in range(2):
        if (child := os.fork()) == 0:
            os._exit(Watched.looks)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert Watched.looks == 1


def is_free(path: Path) -> bool:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


KILLED = """
import os, signal, sys
{take}
if (child := os.fork()) == 0:
    sys.stdin.read()
    os._exit(0)
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    "take",
    [
        "from mucc.build.cache import locks; assert locks.take(os.environ['TMPDIR'] + '/locks/k')",
        "from mucc.process.gpu_lock import exclusive_gpu; turn = exclusive_gpu(); turn.__enter__()",
    ],
)
def test_a_child_does_not_keep_what_its_killed_parent_held(take: str, tmp_path: Path):
    program = KILLED.format(take=take)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin and process.stdout
    child = int(process.stdout.readline())
    assert process.wait(300) == -9
    locks = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert locks and lives(child)
    wait_for(lambda: all(map(is_free, locks)))  # the child closes them as soon as it runs
    assert lives(child)
    process.stdin.close()
    assert gone(child)
    process.stdout.close()


def test_a_child_that_leaves_the_frames_of_its_parent_unlocks_nothing(tmp_path: Path):
    lock = locks.take(str(tmp_path / "k"))
    assert lock
    if (child := os.fork()) == 0:
        locks.release(lock)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert not is_free(tmp_path / "k")
    locks.release(lock)
    assert not (tmp_path / "k").exists()
