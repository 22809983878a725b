"""Measuring on several GPUs side by side: what is shared out, what a loss costs, what is never mixed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import tunelib
from processes import HANG

import mucc.measure.tune.local
from mucc.build.pool import Cancelled
from mucc.database.records import Record
from mucc.database.store import Store
from mucc.diagnostics.core import DiagnosticError, Source
from mucc.measure.tune.building import Built
from mucc.measure.tune.folder import results
from mucc.measure.tune.gpus import MOST_LOSSES, Lost, Together
from mucc.measure.tune.local import tune
from mucc.measure.tune.measure_folder import measure
from mucc.measure.tune.opening import device_of
from mucc.measure.tune.plans import Program
from mucc.measure.tune.search import Limits
from mucc.measure.tune.where import Where

TWO_GPUS = Where((0, 1), command=tunelib.COMMAND)


class Measurer:
    """Measures nothing; `card` is its name."""

    card = "card"

    def sweep(self, *_: object) -> Record:
        raise NotImplementedError

    final = sweep  # pyright: ignore[reportAssignmentType]


def together(count: int, replace: Callable[..., Measurer | None] = lambda _: None) -> Together:
    return Together([Measurer() for _ in range(count)], replace)  # pyright: ignore[reportArgumentType]


def test_all_gpus_work_at_a_time() -> None:
    meeting = threading.Barrier(3)
    with together(3) as gpus:
        futures = [gpus.submit(key, lambda _: meeting.wait(HANG)) for key in range(3)]
        assert sorted(f.result(HANG) for f in futures) == [0, 1, 2]


def test_an_idle_gpu_helps_one_that_has_work() -> None:
    """A second measurement of a problem does not wait for the first, which holds its GPU."""
    ready, go = threading.Barrier(2), threading.Event()

    def hold(measurer: object) -> int:
        ready.wait(HANG)
        go.wait(HANG)
        return id(measurer)

    with together(2) as gpus:
        first = gpus.submit("a", hold)
        ready.wait(HANG)
        second = gpus.submit("a", id).result(HANG)
        go.set()
        assert first.result(HANG) != second


def test_a_lost_gpu_costs_nothing_but_time() -> None:
    first = True

    def work(measurer: object) -> int:
        nonlocal first
        if first:
            first = False
            raise Lost("gone")
        return id(measurer)

    with together(2) as gpus:
        lost = gpus.submit("a", work).result(HANG)
        assert lost and gpus.submit("b", id).result(HANG) == lost
        assert gpus.count == 1


def test_a_replacement_goes_on() -> None:
    seen: list[object] = []

    def work(measurer: object) -> None:
        seen.append(measurer)
        if len(seen) == 1:
            raise Lost("gone")

    other = Measurer()
    with together(1, lambda _: other) as gpus:
        gpus.submit("a", work).result(HANG)
    assert seen[1] is other


def test_what_ends_gpus_is_given_up() -> None:
    def work(_: object) -> None:
        raise Lost("gone")

    with together(1, lambda _: Measurer()) as gpus:
        with pytest.raises(Lost, match=f"after {MOST_LOSSES} losses"):
            gpus.submit("a", work).result(HANG)
        assert gpus.submit("b", lambda _: 1).result(HANG) == 1


def test_without_gpus_all_fails() -> None:
    def work(_: object) -> None:
        raise Lost("gone")

    with together(2) as gpus:
        for _ in range(2):
            with pytest.raises(DiagnosticError) as caught:
                gpus.submit("a", work).result(HANG)
            assert caught.value.diagnostics[0].code == "MU5505"


def test_leaving_drops_what_waits() -> None:
    started, go = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        started.set()
        go.wait(HANG)

    with together(1) as gpus:
        running = gpus.submit("a", hold)
        assert started.wait(HANG)
        waiting = gpus.submit("a", hold)
    assert waiting.cancelled()
    go.set()
    with pytest.raises(Cancelled):  # what came after the end is nobody's
        running.result(HANG)


# With processes


def libraries(pool: object, wanted: object, tools: object):
    for kernel, candidate in wanted:  # pyright: ignore[reportGeneralTypeIssues]
        times = [100.0 if e is None else e for e in candidate.estimates]
        yield Built(kernel, candidate, tunelib.library(kernel, times, {}))


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MUCC_TUNING_DB", str(tmp_path / "tuning.db"))
    monkeypatch.setenv("TUNELIB_LOG", str(tmp_path / "log"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(mucc.measure.tune.local, "build_each", libraries)
    return tmp_path / "log"


def tuned(text: str, where: Where, sizes: int = 4) -> list[tuple[object, ...]]:
    dims = [{"M": 128 * 2**i, "N": 4096, "K": 4096} for i in range(sizes)]
    program = Program(Source("f.mcu", text), dims)
    found = tune(program, limits=Limits(3), where=where)
    return [(o.kernel.name, o.choice, [r.best and r.best.choice for r in o.results]) for o in found]


def test_two_gpus_find_what_one_finds(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = tuned(tunelib.TEXT, Where(command=tunelib.COMMAND))
    alone = {tuple(line.split()[:2]) for line in log.read_text().splitlines()}
    log.unlink()
    monkeypatch.setenv("MUCC_TUNING_DB", str(tmp_path / "second.db"))
    monkeypatch.setenv("TUNELIB_SLEEP", "0.01")
    assert tuned(tunelib.TEXT, TWO_GPUS) == one
    lines = [line.split() for line in log.read_text().splitlines()]
    assert len(lines) == len(alone) and {(a, b) for a, b, _ in lines} == alone
    assert {gpu for *_, gpu in lines} == {"0", "1"}
    assert len(Store(str(tmp_path / "second.db")).all()) == len(alone)


def test_kernels_are_searched_side_by_side(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kernels with one size each keep two GPUs busy, the last rounds included."""
    monkeypatch.setenv("TUNELIB_SLEEP", "0.02")
    text = tunelib.TEXT + tunelib.TEXT.replace("kernel f", "kernel g").replace("relu", "silu")
    found = tuned(text, TWO_GPUS, sizes=1)
    assert [name for name, *_ in found] == ["f", "g"]
    assert {line.split()[2] for line in log.read_text().splitlines()} == {"0", "1"}


def test_a_folder_on_two_gpus(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNELIB_SLEEP", "0.01")
    plan = tunelib.planned()
    measure(tunelib.built(tmp_path / "one", plan).path, where=Where(command=tunelib.COMMAND))
    log.unlink()
    measure(tunelib.built(tmp_path / "two", plan).path, where=TWO_GPUS)
    assert {line.split()[2] for line in log.read_text().splitlines()} == {"0", "1"}
    one, two = results(tmp_path / "one"), results(tmp_path / "two")
    assert [r.best and r.best.choice for r in one] == [r.best and r.best.choice for r in two]
    assert [len(r.records) for r in one] == [len(r.records) for r in two]


def test_cards_are_not_mixed(log: Path) -> None:
    mixed = Where((0, 1), command=(*tunelib.COMMAND, "1"))
    with pytest.raises(DiagnosticError) as caught:
        tuned(tunelib.TEXT, mixed)
    first = caught.value.diagnostics[0]
    assert first.code == "MU5506" and "GPU 0 is NVIDIA H200; GPU 1 is NVIDIA H100" in str(first.message)
    assert not log.exists()


def test_visible_gpus_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-abc")
    assert [device_of(i) for i in range(3)] == ["4", "GPU-abc", "2"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert device_of(1) == "1"


@pytest.mark.usefixtures("log", "own_gpu_locks")
def test_gpus_are_timed_at_once() -> None:
    """The turns on one GPU do not hold up another: both are held at a time."""
    from mucc.process.gpu_lock import exclusive_gpu

    inside = threading.Barrier(2)

    def hold(device: str) -> None:
        with exclusive_gpu(device):
            inside.wait(HANG)

    threads = [threading.Thread(target=hold, args=(d,), daemon=True) for d in ("0", "1")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG)
        assert not thread.is_alive()
    # Whoever holds all GPUs waits for one that is held.
    order: list[str] = []
    with exclusive_gpu("0"):
        other = threading.Thread(target=_note, args=(order,), daemon=True)
        other.start()
        time.sleep(0.05)
        order.append("one")
    other.join(HANG)
    assert order == ["one", "all"]


def _note(order: list[str]) -> None:
    from mucc.process.gpu_lock import exclusive_gpu

    with exclusive_gpu():
        order.append("all")


def test_an_error_ends_all_searches(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kernels are searched; one cannot be measured, and the other leaves no fault behind."""
    monkeypatch.setenv("TUNELIB_SLEEP", "0.05")
    text = tunelib.TEXT + tunelib.TEXT.replace("kernel f", "kernel g").replace("relu", "silu")
    with pytest.raises(DiagnosticError) as caught:
        tuned(text, Where((0, 1), command=(*tunelib.COMMAND, "large")), sizes=5)
    assert caught.value.diagnostics[0].code == "MU5311"
    assert all(r.is_good for r in Store(str(tmp_path / "tuning.db")).all())
