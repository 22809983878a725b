"""`bench.batch`: jobs in the order of their priority, within their limits, each kind of slot used as told."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest
from processes import wait_for

from bench.batch import (
    DONE,
    FAILED,
    LATE,
    LEFT,
    Batch,
    Job,
    Outcome,
    Slots,
    main,
    read_plan,
    visible_gpus,
)
from bench.common import ROOT


def run(folder: Path, *jobs: Job, minutes: float = 10, gpus: str = "0", shares: int = 2) -> list[Outcome]:
    folder.mkdir(exist_ok=True)
    options = argparse.Namespace(minutes=minutes, builds=2, gpus=gpus, shares=shares)
    return Batch(folder, options).run(jobs)


def test_a_job_builds_and_then_measures_on_one_gpu(tmp_path: Path):
    job = Job(
        "a", build="echo $CUDA_VISIBLE_DEVICES.", measure='echo $CUDA_VISIBLE_DEVICES; echo 1 > "$OUT/r"'
    )
    (outcome,) = run(tmp_path, job, gpus="7")
    assert outcome.state == DONE and outcome.gpu == "7" and outcome.build_s is not None
    assert (tmp_path / "a.build.log").read_text() == ".\n"  # no GPU is visible to a build
    assert (tmp_path / "a.measure.log").read_text() == "7\n" and (tmp_path / "a" / "r").read_text() == "1\n"


def test_what_failed_is_not_measured_and_runs_again(tmp_path: Path):
    broken = Job("a", build="exit 3", measure="true")
    done = Job("b", measure="echo x >> $OUT/runs")
    assert [o.state for o in run(tmp_path, broken, done)] == [FAILED, DONE]
    again = run(tmp_path, Job("a", measure="true"), done)
    assert [o.state for o in again] == [DONE, DONE]
    assert (tmp_path / "b" / "runs").read_text() == "x\n"  # it was done
    rows = msgspec.json.decode((tmp_path / "batch.json").read_bytes(), type=list[Outcome])
    assert {row.name: row.state for row in rows} == {"a": DONE, "b": DONE}


def test_limits(tmp_path: Path):
    overdue = Job("overdue", measure="sleep 60 & sleep 60", seconds=0.2)
    unfit = Job("unfit", measure="touch $OUT/ran", seconds=601)
    fits = Job("fits", measure="true", seconds=500)
    assert [o.state for o in run(tmp_path, overdue, unfit, fits)] == [LATE, LEFT, DONE]
    assert not (tmp_path / "unfit").exists()


def test_only_jobs_that_share_are_on_one_gpu_at_a_time(tmp_path: Path):
    # Each of two waits for the other one's file, and one that does not share sees nobody's.
    meet = "touch {0}; for n in $(seq 500); do [ -e {1} ] && exec rm {1}; sleep 0.02; done; exit 1"
    a, b = tmp_path / "a.here", tmp_path / "b.here"
    jobs = [
        Job("alone", measure=f"[ ! -e {a} ] && [ ! -e {b} ]"),
        Job("a", measure=meet.format(a, b), shares=True),
        Job("b", measure=meet.format(b, a), shares=True),
    ]
    assert [o.state for o in run(tmp_path / "out", *jobs)] == [DONE] * 3


def test_the_first_of_those_that_wait_is_next():
    slots, order = Slots(["gpu"]), list[int]()

    def work(priority: int) -> None:
        with slots.take(priority):
            order.append(priority)

    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 1, 2)]
    with slots.take(0):
        for thread in threads:
            thread.start()
        wait_for(lambda: len(slots._waiting) == 3)  # pyright: ignore[reportPrivateUsage]
    for thread in threads:
        thread.join()
    assert order == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[job]]\nname = 'a'\n", "missing required field `measure`"),
        ("[[job]]\nname = 'a/b'\nmeasure = 'x'\n", "no name of a file"),
        ("[[job]]\nname = 'a'\nmeasure = 'x'\nsecond = 3\n", "unknown field `second`"),
        ("[[job]]\nname = 'a'\nmeasure = 'x'\nseconds = 0\n", "above 0 seconds"),
        ("[[job]]\nname = 'a'\nmeasure = 'x'\n" * 2, "several jobs are named a"),
        ("job", "plan.toml: "),
    ],
)
def test_plans_with_a_mistake(tmp_path: Path, text: str, said: str):
    plan = tmp_path / "plan.toml"
    plan.write_text(text)
    with pytest.raises(SystemExit, match=said):
        read_plan(plan)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpus", "0,,1"], "write each GPU once"),
        (["--gpus", "0,0"], "write each GPU once"),
        (["--minutes", "0"], "needs a number above 0"),
        (["--minutes", "-3"], "needs a number above 0"),
        (["--minutes", "soon"], "invalid minutes value"),
    ],
)
def test_options_with_a_mistake(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
):
    monkeypatch.setattr(sys, "argv", ["batch.py", "plan.toml", "-o", str(tmp_path / "out"), *words])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2 and said in capsys.readouterr().err


def test_without_a_gpu_one_has_to_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho No devices found\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with pytest.raises(SystemExit, match="name GPUs by --gpus"):
        visible_gpus()


def test_a_line_names_the_log_of_what_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run(
        tmp_path,
        Job("a", build="exit 3", measure="true"),
        Job("b", measure="exit 3"),
        Job("c", measure="true"),
    )
    said = capsys.readouterr().out
    assert f"{tmp_path}/a.build.log\n" in said and f"{tmp_path}/b.measure.log\n" in said
    assert f"{tmp_path}/c" not in said


@pytest.mark.parametrize("plan", sorted((ROOT / "bench" / "plans").glob("*.toml")), ids=lambda p: p.stem)
def test_plans_of_the_repository_name_modules_that_are_there(plan: Path):
    for job in read_plan(plan):
        words = f"{job.build} {job.measure}".split()
        modules = [words[n + 1] for n, word in enumerate(words) if word == "-m"]
        assert modules, job.name
        for module in modules:
            path = ROOT / module.replace(".", "/")
            assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module


def test_ctrl_c_ends_what_runs_and_keeps_the_record(tmp_path: Path):
    plan = tmp_path / "plan.toml"
    plan.write_text("[[job]]\nname = 'a'\nmeasure = 'echo $$ > $OUT/pid; sleep 100'\n" * 1)
    command = [sys.executable, "-m", "bench.batch", str(plan), "-o", str(tmp_path / "out"), "--gpus", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pid = tmp_path / "out" / "a" / "pid"
    wait_for(lambda: pid.exists() and pid.read_text().strip() != "")
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130 and time.monotonic() - began < 30
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert LEFT in (tmp_path / "out" / "batch.json").read_text()


def test_one_run_at_a_time_works_in_a_folder(tmp_path: Path):
    job = Job("a", measure="true")
    first = Batch(tmp_path, argparse.Namespace(minutes=1, builds=1, gpus="0", shares=1))
    with first.alone(), pytest.raises(SystemExit, match="another run works in"):
        run(tmp_path, job)
    assert not (tmp_path / "batch.json").exists()
    assert [o.state for o in run(tmp_path, job)] == [DONE]
