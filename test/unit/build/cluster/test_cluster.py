"""Jobs on the machines of a Ray cluster: results, losses, machines that differ. The clusters are real."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import raylib
import tunelib
from processes import HANG, wait_for

from mucc.build.cluster import connection
from mucc.build.cluster.objects import SMALL, Objects
from mucc.build.cluster.runner import RayRunner
from mucc.build.cluster.versions import Versions
from mucc.build.jobs import Cancelled, Job, Kind
from mucc.build.pool import Pool
from mucc.diagnostics.core import DiagnosticError


def job(script: str, data: bytes = b"data", name: str = "job") -> Job:
    command = ("/bin/sh", "-c", script)
    return Job("program", name, Kind.LINK, command, {"in": data}, ("out",))


# Without a cluster


def test_differences_are_named() -> None:
    here = Versions("1.0", "abc", "x86_64", "13.0.88", "4.2", "12.2")
    there = here._replace(nvcc="13.2.86", host="")
    assert there.differences(here) == [
        "nvcc is 13.2.86 there and 13.0.88 here",
        "the host compiler is missing there and 12.2 here",
    ]
    assert here.differences(here) == []


class FakeRay:
    """A store without a cluster."""

    def __init__(self) -> None:
        self.puts: list[bytes] = []

    def put(self, data: bytes) -> int:
        self.puts.append(data)
        return len(self.puts)


def test_contents_are_sent_once() -> None:
    ray = FakeRay()
    objects = Objects(ray, kept=5 * SMALL)
    large = [bytes([i]) * 2 * SMALL for i in range(3)]
    assert objects.put(b"small") == b"small" and not ray.puts
    assert [objects.put(data) for data in (large[0], large[1], large[0])] == [1, 2, 1]
    objects.put(large[2])  # the second has to go, since it was used least recently
    assert [objects.put(data) for data in (large[0], large[1])] == [1, 4]
    objects.drop()
    assert objects.put(large[0]) == 5


def test_ray_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "importlib", SimpleNamespace(import_module=_missing))
    with pytest.raises(DiagnosticError) as caught:
        connection.connect("local")
    assert caught.value.diagnostics[0].code == "MU5501"


def _missing(name: str) -> Any:
    raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1:9", "connection refused"),
        ("nowhere.invalid", ""),
        ("127.0.0.1:x", "'x' is no number of a port"),
        ("http://a/b", "'a/b' is no number of a port"),
        ("127.0.0.1:99999999", ""),
        ("auto", "none runs on this machine"),
    ],
)
def test_no_such_cluster(address: str, why: str) -> None:
    pytest.importorskip("ray")
    with pytest.raises(DiagnosticError) as caught:
        connection.connect(address)
    (found,) = caught.value.diagnostics
    assert found.code == "MU5502" and str(found.message).endswith(why)


def test_importing_mucc_does_not_load_ray() -> None:
    modules = "sys, mucc.cli.build, mucc.cli.tune, mucc.build.pool"
    code = f"import {modules}; mucc.build.pool.Pool(1); print('ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# Command lines; before a cluster is there, since a process has one


@pytest.mark.parametrize(
    "words",
    [
        ("mucc", "{}/f.mcu", "{}/g.mcu"),
        ("mucc", "tune", "{}/f.mcu", "--dims", "M=64,N=64,K=64"),
        ("mucc.agent", "optimize", "{}/p.py", "-o", "{}/run"),
    ],
    ids=["build", "tune", "agent"],
)
def test_commands_say_that_there_is_no_cluster(words: tuple[str, ...], tmp_path: Path) -> None:
    pytest.importorskip("ray")
    (tmp_path / "f.mcu").write_text(tunelib.TEXT)
    (tmp_path / "g.mcu").write_text(tunelib.TEXT.replace("kernel f", "kernel g"))
    (tmp_path / "p.py").write_text("")
    line = [word.replace("{}", str(tmp_path)) for word in words]
    command = [sys.executable, "-m", *line, "--ray", "127.0.0.1:9"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3 and "MU5502" in done.stderr and "Traceback" not in done.stderr


def test_benchmarks_take_an_address() -> None:
    pytest.importorskip("ray")
    from bench.common import _take_cluster  # pyright: ignore[reportPrivateUsage]

    words = ["bench/compile.py", "--ray", "127.0.0.1:9", "-j", "2"]
    with pytest.raises(DiagnosticError) as caught:
        _take_cluster(words)
    assert caught.value.diagnostics[0].code == "MU5502" and words == ["bench/compile.py", "-j", "2"]


# With a cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[raylib.Machines]:
    with raylib.machines(num_cpus=2) as made:
        yield made


@pytest.fixture
def runner(cluster: raylib.Machines) -> RayRunner:
    connected = connection.connect(cluster.address)
    connected.cores = connected.memory_bytes = connected.largest_bytes = 0
    connected.probe()
    return RayRunner(connected)


def test_jobs_run_there(runner: RayRunner) -> None:
    large = b"x" * (4 * SMALL)
    with Pool(runner=runner) as pool:
        assert pool.remote and pool.cores == 2
        futures = [pool.submit(job("tr a-z A-Z < in > out; echo said", data)) for data in (b"small", large)]
        results = [future.result(HANG) for future in futures]
    assert [r.files["out"] for r in results] == [b"SMALL", large.upper()]
    assert all(r.log == "said\n" and r.status == 0 for r in results)


def test_errors_are_those_of_this_machine(runner: RayRunner) -> None:
    for script in ("echo 'error: bad' >&2; exit 1", "true"):
        found: list[str] = []
        for where in (runner, None):
            with pytest.raises(DiagnosticError) as caught, Pool(1, runner=where) as pool:
                pool.run(job(script))
            found.append(str(caught.value.diagnostics[0]))
        assert found[0] == found[1]


def test_a_killed_worker_costs_its_task_only(runner: RayRunner, tmp_path: Path) -> None:
    """The parent of the first shell is the process of the task."""
    script = f"if mkdir {tmp_path}/once 2>/dev/null; then kill -9 $PPID; sleep 100; fi; cp in out"
    with Pool(runner=runner) as pool:
        other = pool.submit(job("sleep 0.2; cp in out", b"other"))
        assert pool.run(job(script)).files["out"] == b"data"
        assert other.result(HANG).files["out"] == b"other"


def test_called_off_jobs_end(runner: RayRunner, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    pool = Pool(runner=runner)
    future = pool.submit(job(f"echo $$ > {pid}.part; mv {pid}.part {pid}; sleep 1000"))
    wait_for(pid.exists)
    pool.cancel()
    with pytest.raises(Cancelled):
        future.result(HANG)
    wait_for(lambda: not Path("/proc", pid.read_text().strip()).exists())


def test_what_the_cluster_cannot_do_is_done_here(runner: RayRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store without room, and tasks that are lost again and again."""
    errors = runner.cluster.ray.exceptions

    def full(_: bytes) -> Any:
        raise errors.ObjectStoreFullError("full")

    monkeypatch.setattr(runner.objects, "put", full)
    assert runner(job("cp in out"), {}).files["out"] == b"data"

    def lost(*_: Any) -> Any:
        raise errors.WorkerCrashedError

    monkeypatch.setattr(runner, "_submit", lost)
    assert runner(job("cp in out"), {}).files["out"] == b"data"
