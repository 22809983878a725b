"""Machines of a Ray cluster that are lost, full, differ, or come later. The clusters are real."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

import pytest
import raylib
from processes import HANG, wait_for

from mucc.build.cluster import connection
from mucc.build.cluster.runner import RayRunner
from mucc.build.jobs import Job, Kind
from mucc.build.pool import Pool
from mucc.diagnostics.core import DiagnosticError


def job(script: str, data: bytes = b"data", name: str = "job") -> Job:
    command = ("/bin/sh", "-c", script)
    return Job("program", name, Kind.LINK, command, {"in": data}, ("out",))


@pytest.mark.long
def test_a_lost_machine_costs_its_tasks_only(tmp_path: Path) -> None:
    """Jobs that hold a machine until it is lost run again on another."""
    with raylib.machines(num_cpus=1) as made:
        node = made.add(num_cpus=2)
        runner = RayRunner(connection.connect(made.address))
        runner.cluster.probe()
        script = f"touch {tmp_path}/started-$$; while [ ! -e {tmp_path}/go ]; do sleep 0.1; done; cp in out"
        with Pool(3, 1 << 40, runner=runner) as pool:
            futures = [pool.submit(job(script, bytes([i]), f"job {i}")) for i in range(3)]
            wait_for(lambda: len(list(tmp_path.glob("started-*"))) == 3)
            made.lose(node)
            (tmp_path / "go").touch()
            assert [f.result(HANG).files["out"] for f in futures] == [bytes([i]) for i in range(3)]


@pytest.mark.long
def test_a_full_object_store_loses_nothing() -> None:
    """Without room on the disk, six files of 40 MB do not fit a store of 80 MB."""
    off = {"automatic_object_spilling_enabled": False, "local_fs_capacity_threshold": 0.0}
    with raylib.machines(num_cpus=2, _system_config=off) as made:
        runner = RayRunner(connection.connect(made.address))
        runner.cluster.probe()
        files = [bytes([65 + i]) * (40 << 20) for i in range(6)]
        with Pool(2, 1 << 40, runner=runner) as pool:
            futures = [pool.submit(job("cp in out", data)) for data in files]
            assert [f.result(HANG).files["out"] for f in futures] == files


@pytest.mark.long
def test_machines_that_differ_are_refused(tmp_path: Path) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\necho 99.9.9\n")
    compiler.chmod(0o755)
    with raylib.machines(num_cpus=0) as made:
        with patch.dict(os.environ, MUCC_CXX=str(compiler)):
            made.add(num_cpus=1)
        connected = connection.connect(made.address)
        with pytest.raises(DiagnosticError) as caught:
            connected.probe()
        first = caught.value.diagnostics[0]
        assert first.code == "MU5504" and "the host compiler is 99.9.9 there" in str(first.notes)
        made.add(num_cpus=1)
        connected.probe()
        assert connected.cores == 1 and [w.code for w in connected.warnings] == ["MU5503"]
        ran = [RayRunner(connected)(job("cp in out"), {}).files["out"] for _ in range(4)]
        assert ran == [b"data"] * 4


@pytest.mark.long
def test_a_machine_that_joins_later_is_checked_by_its_first_task(tmp_path: Path) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\necho 99.9.9\n")
    compiler.chmod(0o755)
    with raylib.machines(num_cpus=1) as made:
        runner = RayRunner(connection.connect(made.address))
        runner.cluster.probe()
        with patch.dict(os.environ, MUCC_CXX=str(compiler)):
            made.add(num_cpus=1)
        with Pool(2, 1 << 40, runner=runner) as pool:
            futures = [pool.submit(job("sleep 0.3; cp in out")) for _ in range(6)]
            assert [f.result(HANG).files["out"] for f in futures] == [b"data"] * 6
        assert [w.code for w in runner.cluster.warnings] == ["MU5503"]
