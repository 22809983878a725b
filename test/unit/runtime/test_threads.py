"""Libraries that several threads, or forked processes, make and load at once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import wait_for

import mucc.runtime.build as building
from mucc.runtime import CompileError


@pytest.fixture
def often() -> Iterator[None]:
    """Switch threads as often as Python can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(count: int, work: Callable[[], object]) -> list[object]:
    """Results of a function in threads that begin at once, or what it raised."""
    barrier, found = threading.Barrier(count), list[object]()

    def run() -> None:
        barrier.wait()
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_a_thread_loads_no_half_of_what_another_one_writes(
    monkeypatch: pytest.MonkeyPatch, often: None
) -> None:
    monkeypatch.setattr(building, "load", lambda path: path.read_bytes())
    for n in range(60):
        library = bytes([n]) * 1_000_000
        found = in_threads(4, lambda library=library: building._loaded(library) == library)  # pyright: ignore[reportPrivateUsage]
        assert found == [True] * 4


def test_a_library_that_cannot_be_kept_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(building, "_folder", lambda: tmp_path / "gone")
    with pytest.raises(CompileError, match="cannot keep a compiled library") as caught:
        building._loaded(b"library")  # pyright: ignore[reportPrivateUsage]
    assert caught.value.code == "MU5107"


FORKED = """
import os, signal, sys
import mucc.runtime.build as building
building.load = lambda path: path
first = building._loaded(b"first")
if (child := os.fork()) == 0:
    if sys.argv[1] == "compiles":
        assert building._loaded(b"first").parent != first.parent
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
assert first.exists() and building._loaded(b"second").parent == first.parent
print(first.parent, flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["compiles", "killed"])
def test_the_folder_of_libraries_ends_with_its_process_alone(how: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", FORKED, how]
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=300)
    assert ended.returncode == (-9 if how == "killed" else 0)
    folder = Path(ended.stdout.strip())
    assert folder.parent == tmp_path
    wait_for(lambda: not any(tmp_path.iterdir()))
