"""NVRTC in a process of its own: answers, errors, crashes, hangs."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mucc.build.toolchain import nvrtc, nvrtc_worker
from mucc.build.toolchain.nvrtc import Compiled
from mucc.build.toolchain.nvrtc_worker import Worker, Workers
from mucc.diagnostics.core import Diagnostic, DiagnosticError

SOURCE = 'extern "C" __global__ void k(float* p) { p[threadIdx.x] += 1.0f; }'


@pytest.fixture
def worker() -> Iterator[Worker]:
    if reason := nvrtc.why_unusable(".".join(map(str, nvrtc.version() or (0, 0)))):
        pytest.skip(reason)
    made = Worker()
    yield made
    made.stop()


def code(error: pytest.ExceptionInfo[DiagnosticError]) -> str:
    return error.value.diagnostics[0].code


def pid(worker: Worker) -> int:
    process = worker._process  # pyright: ignore[reportPrivateUsage]
    assert process is not None
    return process.pid


def test_answers_and_errors(worker: Worker) -> None:
    assert ".entry k" in worker.compile_ptx(SOURCE, "sm_90a", (), "k.cu").ptx
    first = pid(worker)
    with pytest.raises(DiagnosticError) as error:
        worker.compile_ptx("int x = y;", "sm_90a", (), "k.cu")
    assert code(error) == "MU5110" and any("k.cu(1)" in n for n in error.value.diagnostics[0].notes)
    assert ".entry k" in worker.compile_ptx(SOURCE, "sm_90a", (), "k.cu").ptx and pid(worker) == first


def test_from_many_threads(worker: Worker) -> None:
    found: list[str] = []

    def compile(i: int) -> None:
        text = SOURCE.replace(" k(", f" k{i}(")
        found.append(
            f".entry k{i}" if f".entry k{i}(" in worker.compile_ptx(text, "sm_90a", (), "k").ptx else ""
        )

    threads = [threading.Thread(target=compile, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [f".entry k{i}" for i in range(8)]


def test_a_crash_is_an_error_and_the_next_call_starts_anew(worker: Worker) -> None:
    worker.compile_ptx(SOURCE, "sm_90a", (), "k.cu")
    os.kill(pid(worker), signal.SIGSTOP)
    threading.Timer(0.2, os.kill, (pid(worker), signal.SIGKILL)).start()
    with pytest.raises(DiagnosticError) as error:
        worker.compile_ptx(SOURCE, "sm_90a", (), "k.cu")
    assert code(error) == "MU5111"
    assert ".entry k" in worker.compile_ptx(SOURCE, "sm_90a", (), "k.cu").ptx


def test_a_hang_is_an_error(worker: Worker) -> None:
    worker.compile_ptx(SOURCE, "sm_90a", (), "k.cu")
    stuck = pid(worker)
    os.kill(stuck, signal.SIGSTOP)
    with pytest.raises(DiagnosticError) as error:
        worker.compile_ptx(SOURCE, "sm_90a", (), "k.cu", 0.3)
    assert code(error) == "MU5108"
    assert ".entry k" in worker.compile_ptx(SOURCE, "sm_90a", (), "k.cu").ptx and pid(worker) != stuck


def test_what_cannot_be_run_is_unusable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nvrtc_worker.sys, "executable", str(tmp_path / "no-python"))
    made = Worker()
    made.start()
    assert "NVRTC" in (made.why_unusable("13.0.88") or "")
    assert sys.executable.endswith("no-python")


class Meeting(Worker):
    """A worker whose requests end when so many are under way, or fail."""

    def __init__(self, barrier: threading.Barrier) -> None:
        super().__init__()
        self.barrier = barrier

    def compile_ptx(self, *_: object, **__: object) -> Compiled:
        return Compiled(str(self.barrier.wait(300)), "")


def compiled(workers: Workers, count: int) -> list[str]:
    with ThreadPoolExecutor(count) as threads:
        return [
            c.ptx for c in threads.map(lambda _: workers.compile_ptx("", "sm_90a", (), "k"), range(count))
        ]


def test_requests_at_once_have_workers_of_their_own() -> None:
    barrier, made = threading.Barrier(3), []
    workers = Workers(3, lambda: made.append(Meeting(barrier)) or made[-1])
    assert sorted(compiled(workers, 3)) == sorted(compiled(workers, 3)) == ["0", "1", "2"]
    assert len(made) == 3


def test_there_are_no_more_workers_than_may_be() -> None:
    barrier, made = threading.Barrier(1), []
    workers = Workers(2, lambda: made.append(Meeting(barrier)) or made[-1])
    assert compiled(workers, 6) == ["0"] * 6 and len(made) <= 2


def test_a_worker_that_fails_is_used_again() -> None:
    class Failing(Worker):
        def compile_ptx(self, *_: object, **__: object) -> Compiled:
            raise DiagnosticError(Diagnostic("MU5110", "no"))

    workers = Workers(1, Failing)
    for _ in range(2):
        with pytest.raises(DiagnosticError):
            workers.compile_ptx("", "sm_90a", (), "k")


class Stuck(Worker):
    """A worker that is in use for as long as its process lasts."""

    def __init__(self, began: threading.Event, may_end: threading.Event) -> None:
        super().__init__()
        self.began, self.may_end = began, may_end

    def compile_ptx(self, *_: object, **__: object) -> Compiled:
        with self._lock:
            self.began.set()
            self.may_end.wait()
        return Compiled("ptx", "")


def test_a_forked_child_has_workers_of_its_own() -> None:
    began, may_end = threading.Event(), threading.Event()
    workers = Workers(1, lambda: Stuck(began, may_end))
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(workers.compile_ptx, "", "sm_90a", (), "k")
        began.wait()
        if (child := os.fork()) == 0:
            workers.begin_anew()
            may_end.set()
            ended = threading.Thread(
                target=lambda: (workers.compile_ptx("", "sm_90a", (), "k"), workers.stop())
            )
            ended.start()
            ended.join(60)
            os._exit(ended.is_alive())
        assert os.waitpid(child, 0)[1] == 0
        may_end.set()
        assert found.result().ptx == "ptx"


def test_a_forked_child_leaves_the_worker_of_its_parent_alone(worker: Worker) -> None:
    worker.compile_ptx(SOURCE, "sm_90a", (), "k.cu")
    first = pid(worker)
    if (child := os.fork()) == 0:
        try:
            worker.forget()
            worker.stop()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert ".entry k" in worker.compile_ptx(SOURCE, "sm_90a", (), "k.cu").ptx and pid(worker) == first
