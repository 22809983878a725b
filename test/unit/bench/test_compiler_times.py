"""The processes in which other compilers are measured; a script stands for the interpreter that runs them."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import gone

import bench.compilers as compilers
from bench.compilers import RIVALS, problem, times

Stand = Callable[[str], None]


@pytest.fixture
def interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stand:
    """Has children run a shell script, not Python; $3 is the compiler's name, $4 its cache, $5 --cold."""

    def stand(script: str) -> None:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return stand


def answer(seconds: list[float], errors: list[float]) -> str:
    return json.dumps({"import_s": 0.5, "seconds": seconds, "errors": errors})


@pytest.mark.parametrize("module", sorted({module for module, _ in RIVALS.values()}))
def test_compilers_load_without_their_packages(module: str):
    loaded = importlib.import_module(f"bench.compilers.{module}")
    assert callable(loaded.compile_once) and callable(loaded.launch)


def test_kernels_are_written_in_valid_python():
    folder = Path(compilers.__file__).parent
    kernels = sorted(folder.glob("*_kernel.py"))
    assert [k.name for k in kernels] == ["cute_dsl_kernel.py", "triton_kernel.py"]
    for kernel in kernels:
        compile(kernel.read_text(encoding="utf-8"), str(kernel), "exec")


def test_the_problem_suits_every_kernel():
    assert problem.N % problem.TILE_N == 0 and problem.K % problem.TILE_K == 0
    assert problem.M % problem.TILE_M and len(problem.VARIANTS) > 2


def test_a_child_gets_an_empty_cache_of_its_own(interpreter: Stand, tmp_path: Path):
    log = tmp_path / "log"
    look = f'echo "$1 $2 $3 $4 $5" >> {log}; ls -A "$4" >> {log}; touch "$4/x"'
    interpreter(f"{look}; echo noise; echo '{answer([1], [])}'")
    for cold in (True, False):
        found, seconds = times.run_child("triton", cold, 10)
        assert found == {"import_s": 0.5, "seconds": [1], "errors": []} and seconds > 0
    first, second = (line.split() for line in log.read_text().splitlines())
    assert first[:3] == ["-m", "bench.compilers", "triton"] and first[4] == "--cold" and len(second) == 4
    assert first[3] != second[3] and not Path(first[3]).exists()


def test_a_child_that_fails_is_quoted(interpreter: Stand):
    interpreter("echo Traceback >&2; echo \"ModuleNotFoundError: No module named 'triton'\" >&2; exit 1")
    with pytest.raises(RuntimeError, match=r"^ModuleNotFoundError: No module named 'triton'$"):
        times.run_child("triton", True, 10)
    interpreter("exit 3")
    with pytest.raises(RuntimeError, match=r"^exit status 3$"):
        times.run_child("triton", True, 10)


def test_a_child_that_hangs_ends_with_its_workers(interpreter: Stand, tmp_path: Path):
    interpreter(f"sleep 60 & echo $! > {tmp_path}/worker; wait")
    with pytest.raises(RuntimeError, match=r"^not done after 0.3 s$"):
        times.run_child("triton", True, 0.3)
    worker = int((tmp_path / "worker").read_text())
    assert gone(worker)


def test_figures_are_medians_of_what_children_report(interpreter: Stand, capsys: pytest.CaptureFixture[str]):
    cold, warm = answer([2.5], []), answer([9, 0.25, 0.75, 0.5], [1e-3, 2e-3, 1e-3, 1e-3])
    interpreter(f"if [ \"$5\" = --cold ]; then echo '{cold}'; else echo '{warm}'; fi")
    (row,) = times.measure_all(["triton"], runs=2, timeout=300)
    assert row["name"] == "triton" and not row["problem"]
    assert (row["import_s"], row["cold_s"], row["warm_s"], row["warm_worst_s"]) == (0.5, 2.5, 0.5, 0.75)
    assert row["error"] == 2e-3
    summary = times.summarise([row])
    assert summary["compilers.triton.cold_s"] == 2.5 and summary["compilers.triton.warm_s"] == 0.5
    assert "cold 2.50 s" in capsys.readouterr().out


@pytest.mark.parametrize("bad", ["0.5", "Infinity"])
def test_nonsense_is_not_timed(interpreter: Stand, bad: str):
    interpreter(f"echo '{answer([1, 1, 1, 1], [0, 0, 0, 0])}' | sed 's/0, 0, 0]/{bad}, 0, 0]/'")
    rival = times.measure("triton", runs=1, timeout=300)
    assert rival.problem == "wrong results of silu" and rival.cold_s is None
    assert times.summarise([{"name": "triton", "cold_s": None, "process_s": None, "warm_s": None}]) == {}
