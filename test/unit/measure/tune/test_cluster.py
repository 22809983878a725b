"""Measuring on the GPUs of a Ray cluster. The cluster is real; its GPUs are processes that pretend."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
import raylib
import tunelib
from processes import HANG, descendants, lives, wait_for

import mucc.measure.tune.local
from mucc.database.store import Store
from mucc.diagnostics.core import Diagnostic, DiagnosticError, Source
from mucc.measure.tune.building import Built
from mucc.measure.tune.local import tune
from mucc.measure.tune.plans import Program
from mucc.measure.tune.search import Limits
from mucc.measure.tune.where import Where

pytestmark = pytest.mark.long

SIZES = [{"M": 128 * 2**i, "N": 4096, "K": 4096} for i in range(4)]


def libraries(pool: object, wanted: object, tools: object) -> Iterator[Built]:
    for kernel, candidate in wanted:  # pyright: ignore[reportGeneralTypeIssues]
        times = [100.0 if e is None else e for e in candidate.estimates]
        yield Built(kernel, candidate, tunelib.library(kernel, times, {"id": candidate.id}))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[raylib.Machines]:
    """Two GPUs; what measures there writes to a log, and takes a while."""
    log = tmp_path_factory.mktemp("cluster") / "log"
    with (
        patch.dict(os.environ, TUNELIB_LOG=str(log), TUNELIB_SLEEP="0.02"),
        raylib.machines(num_cpus=2, num_gpus=2) as made,
    ):
        yield made


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cluster: raylib.Machines) -> Path:
    monkeypatch.setenv("MUCC_TUNING_DB", str(tmp_path / "tuning.db"))
    monkeypatch.setattr(mucc.measure.tune.local, "build_each", libraries)
    found = Path(os.environ["TUNELIB_LOG"])
    found.unlink(missing_ok=True)
    return found


def tuned(where: Where) -> list[tuple[object, ...]]:
    found = tune(Program(Source("f.mcu", tunelib.TEXT), SIZES), limits=Limits(3), where=where)
    return [(o.choice, [r.best and r.best.choice for r in o.results]) for o in found]


def lines(log: Path) -> list[tuple[str, ...]]:
    return [tuple(line.split()) for line in log.read_text().splitlines()]


def test_a_cluster_finds_what_one_gpu_finds(
    log: Path, cluster: raylib.Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tuned(Where(ray=cluster.address, command=tunelib.COMMAND))
    there = lines(log)
    assert {gpu for *_, gpu in there} == {"0", "1"} and len({line[:2] for line in there}) == len(there)
    assert len(Store(str(tmp_path / "tuning.db")).all()) == len(there)
    monkeypatch.setenv("MUCC_TUNING_DB", str(tmp_path / "second.db"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert tuned(Where(command=tunelib.COMMAND)) == found


def test_a_killed_actor_loses_nothing(log: Path, cluster: raylib.Machines, tmp_path: Path) -> None:
    """The process of an actor is the parent of one that measures."""
    outcome: list[object] = []
    where = Where(ray=cluster.address, command=tunelib.COMMAND)
    search = threading.Thread(target=lambda: outcome.append(tuned(where)), daemon=True)
    search.start()
    wait_for(lambda: log.exists() and len(lines(log)) > 3)
    for pid in descendants(os.getpid()):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        if "Station" in command:
            os.kill(pid, signal.SIGKILL)
            break
    else:
        pytest.fail("there is no actor")
    search.join(HANG)
    assert outcome and all(best for _, bests in outcome[0] for best in bests)  # pyright: ignore
    measured = {line[:2] for line in lines(log)}
    records = Store(str(tmp_path / "tuning.db")).all()
    assert len(records) == len(measured) and all(r.is_good for r in records)


def test_gpus_of_another_kind_are_refused(log: Path, cluster: raylib.Machines) -> None:
    warned: list[Diagnostic] = []
    mixed = (*tunelib.COMMAND, "1")
    tuned(Where(ray=cluster.address, card="h100", command=mixed, warn=warned.append))
    assert {gpu for *_, gpu in lines(log)} == {"1"}
    assert [w.code for w in warned] == ["MU5503"]
    assert "the card is NVIDIA H200 there and NVIDIA H100 80GB HBM3 on others" in str(warned[0].message)


@pytest.mark.parametrize(
    ("words", "card", "why"),
    [(("nothing",), None, "there is no GPU"), ((), "b200", "it has no b200")],
)
def test_no_gpu_fits(
    words: tuple[str, ...], card: str | None, why: str, log: Path, cluster: raylib.Machines
) -> None:
    with pytest.raises(DiagnosticError) as caught:
        tuned(Where(ray=cluster.address, card=card, command=(*tunelib.COMMAND, *words)))
    first = caught.value.diagnostics[0]
    assert first.code == "MU5504" and why in str(first.notes)


def test_a_killed_driver_loses_nothing(log: Path, cluster: raylib.Machines, tmp_path: Path) -> None:
    """What was measured is in the database, a second run measures the rest, and nothing goes on running."""
    script = tmp_path / "driver.py"
    script.write_text(
        f"""
import sys
import tunelib
import mucc.measure.tune.local as local
from mucc.diagnostics.core import Source
from mucc.measure.tune.building import Built
from mucc.measure.tune.where import Where
from mucc.measure.tune.plans import Program
from mucc.measure.tune.search import Limits

def libraries(pool, wanted, tools):
    for kernel, candidate in wanted:
        times = [100.0 if e is None else e for e in candidate.estimates]
        yield Built(kernel, candidate, tunelib.library(kernel, times, {{"id": candidate.id}}))

local.build_each = libraries
where = Where(ray={cluster.address!r}, command=tunelib.COMMAND)
local.tune(Program(Source("f.mcu", tunelib.TEXT), {SIZES!r}), limits=Limits(3), where=where)
"""
    )
    root = Path(__file__).resolve().parents[4]
    path = os.pathsep.join([str(root), str(root / "test" / "lib")])
    driver = subprocess.Popen([sys.executable, str(script)], env={**os.environ, "PYTHONPATH": path})
    database = Store(str(tmp_path / "tuning.db"))
    wait_for(lambda: len(database.all()) > 2 or driver.poll() is not None)
    driver.kill()
    driver.wait()
    kept = {r.key for r in database.all()}
    assert kept
    wait_for(lambda: not measuring())
    count = len(lines(log))
    time.sleep(0.2)
    assert len(lines(log)) == count
    tuned(Where(ray=cluster.address, command=tunelib.COMMAND))
    again = [line[:2] for line in lines(log)[count:]]
    records = Store(str(tmp_path / "tuning.db")).all()
    assert len(again) == len(set(again)) == len(records) - len(kept)


def measuring() -> list[int]:
    """The processes that measure."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[1:2] == [tunelib.COMMAND[1].encode()] and lives(int(path.parent.name)):
            found.append(int(path.parent.name))
    return found
