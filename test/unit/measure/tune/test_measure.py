"""Measuring a folder through a child process: faults, hangs, kills, resumption. The child is a stand-in."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tunelib
from processes import HANG, gone, wait_for

from mucc.database.records import Status, choice_text
from mucc.database.store import Store
from mucc.diagnostics.core import DiagnosticError
from mucc.measure.tune.child import UNFIT
from mucc.measure.tune.folder import Folder, results
from mucc.measure.tune.measure_folder import Progress, measure
from mucc.measure.tune.plans import Plan
from mucc.measure.tune.worker import Died, Worker


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tuning.db"
    monkeypatch.setenv("MUCC_TUNING_DB", str(path))
    return path


def fake(*words: str) -> Worker:
    return Worker((*tunelib.COMMAND, *words))


def work(plan: Plan) -> int:
    return sum(e is not None for k in plan.kernels for c in k.candidates for e in c.estimates)


def test_measurements_go_into_the_folder_and_the_database(tmp_path: Path, database: Path) -> None:
    plan = tunelib.planned()
    seen: list[Progress] = []
    folder = measure(tunelib.built(tmp_path / "c", plan).path, worker=fake(), measured=seen.append)
    assert len(folder.records()) == work(plan) == len(seen)
    assert (seen[-1].done, seen[-1].total) == (work(plan), work(plan))
    assert {r.key for r in Store(str(database)).all()} == {r.key for r in folder.records()}
    for i, result in enumerate(results(tmp_path / "c")):
        fastest = min(plan.kernels[0].candidates, key=lambda c, i=i: c.estimates[i] or 1e9)
        assert result.best is not None and result.first is not None
        assert result.best.choice == fastest.choice
        assert result.best.run.error == 1e-3


def test_times_of_the_last_round_decide(tmp_path: Path, database: Path) -> None:
    """A candidate that was not in it had cooler clocks: its time does not count against one that was."""
    plan = tunelib.planned(dims=tunelib.SIZES[:1])
    ids = [c.id for c in plan.kernels[0].candidates]
    slow = {id: {"times": {plan.kernels[0].sizes[0].text: 500.0}} for id in ids[2:]}
    measure(tunelib.built(tmp_path / "c", plan, **slow).path, worker=fake())
    (result,) = results(tmp_path / "c")
    assert {r.run.final for r in result.records if r.time_us > 400} == {False}
    assert result.best is not None and result.best.run.final


@pytest.mark.parametrize(
    ("does", "status"),
    [
        ("crash", Status.FAULT),
        ("hang", Status.TIMEOUT),
        ("wrong", Status.WRONG),
        ("break", Status.FAULT),
    ],
)
def test_a_bad_candidate_costs_only_itself(tmp_path: Path, database: Path, does: str, status: Status) -> None:
    plan = tunelib.planned()
    bad = plan.kernels[0].candidates[0]
    for limit in (2, 20, HANG) if does == "hang" else (HANG,):
        folder = tunelib.built(tmp_path / f"c{limit}", plan, **{bad.id: {"does": does}})
        measure(folder.path, worker=fake(), timeout=limit)
        found = folder.records()
        # A machine may be so busy that good ones take longer.
        if all(r.run.status is not Status.TIMEOUT for r in found if r.choice != bad.choice):
            break
    assert len(found) == work(plan)
    mine = [r for r in found if r.choice == bad.choice]
    assert {r.run.status for r in mine} == {status} and all(r.run.reason for r in mine)
    assert {r.run.status for r in found if r.choice != bad.choice} == {Status.GOOD}
    assert all(r.best is not None and r.best.choice != bad.choice for r in results(folder))


def test_a_second_run_measures_what_is_missing(
    tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tunelib.planned()
    folder = tunelib.built(tmp_path / "c", plan)
    log = tmp_path / "log"
    monkeypatch.setenv("TUNELIB_LOG", str(log))
    measure(folder.path, worker=fake())
    measure(folder.path, worker=fake())
    assert len(log.read_text().splitlines()) == work(plan)
    measure(folder.path, worker=fake(), again=True)
    assert len(log.read_text().splitlines()) == 2 * work(plan)


def test_what_could_not_be_built_is_recorded(tmp_path: Path, database: Path) -> None:
    from mucc.measure.tune.folder import Failure

    plan = tunelib.planned(dims=tunelib.SIZES[:1])
    folder = tunelib.built(tmp_path / "c", plan)
    bad, missing = plan.kernels[0].candidates[:2]
    for candidate in (bad, missing):
        os.unlink(tmp_path / "c" / f"{candidate.id}.so")
    folder.add_failure(bad, Failure("MU5110: nvcc rejected the C++", lasting=True))
    measure(folder.path, worker=fake())
    by_choice = {choice_text(r.choice): r.run for r in folder.records()}
    assert by_choice[choice_text(bad.choice)].status is Status.BUILD
    assert "MU5110" in by_choice[choice_text(bad.choice)].reason
    assert choice_text(missing.choice) not in by_choice


def test_no_gpu(tmp_path: Path, database: Path) -> None:
    folder = tunelib.built(tmp_path / "c", tunelib.planned())
    with pytest.raises(DiagnosticError) as caught:
        measure(folder.path, worker=fake("nothing"))
    assert caught.value.diagnostics[0].code == "MU5301"
    assert "--build-only" in caught.value.diagnostics[0].helps[0]


def test_no_python_for_it(tmp_path: Path, database: Path) -> None:
    folder = tunelib.built(tmp_path / "c", tunelib.planned())
    with pytest.raises(DiagnosticError) as caught:
        measure(folder.path, worker=Worker((sys.executable, "-c", "raise SystemExit('no torch')")))
    assert caught.value.diagnostics[0].code == "MU5301" and "no torch" in caught.value.diagnostics[0].message


def test_what_a_machine_lacks_is_said_without_ado(tmp_path: Path, database: Path) -> None:
    folder = tunelib.built(tmp_path / "c", tunelib.planned())
    script = f"import sys; print('no card', file=sys.stderr); sys.exit({UNFIT})"
    with pytest.raises(DiagnosticError) as caught:
        measure(folder.path, worker=Worker((sys.executable, "-c", script)))
    message = "kernels cannot be measured on this machine: no card"
    assert caught.value.diagnostics[0].message == message


def test_a_size_without_a_reference_does_not_keep_the_others(tmp_path: Path, database: Path) -> None:
    folder = tunelib.built(tmp_path / "c", tunelib.planned())
    with pytest.raises(DiagnosticError) as caught:
        measure(folder.path, worker=fake("large"))
    assert [d.code for d in caught.value.diagnostics] == ["MU5311"]
    assert {r.dims["M"] for r in folder.records()} == {128}


def test_libraries_for_another_gpu(tmp_path: Path, database: Path) -> None:
    import dataclasses

    folder = tunelib.built(tmp_path / "c", dataclasses.replace(tunelib.planned(), target="sm_80"))
    with pytest.raises(DiagnosticError) as caught:
        measure(folder.path, worker=fake())
    assert caught.value.diagnostics[0].code == "MU5312"


MEASURE = """
import sys
sys.path.insert(0, sys.argv[1])
import tunelib
from mucc.measure.tune.measure_folder import measure
from mucc.measure.tune.worker import Worker
measure(sys.argv[2], worker=Worker(tunelib.COMMAND))
"""


def _wait_for_more(folder: Folder, before: set[tuple[str, ...]], process: subprocess.Popen[bytes]) -> None:
    wait_for(lambda: len(folder.records()) > len(before) or process.poll() is not None)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_killed_run_loses_no_finished_measurement(tmp_path: Path, database: Path, seed: int) -> None:
    """SIGKILL at random moments: what had been measured is neither lost nor measured again."""
    plan = tunelib.planned(budget=6)
    folder = tunelib.built(tmp_path / "c", plan)
    log = tmp_path / "log"
    environment = {**os.environ, "TUNELIB_LOG": str(log), "TUNELIB_SLEEP": "0.02"}
    chance = random.Random(seed)
    command = (sys.executable, "-c", MEASURE, os.path.dirname(tunelib.__file__), folder.path)
    kills = 0
    while len(folder.records()) < work(plan):
        before = {r.key for r in folder.records()}
        process = subprocess.Popen(command, env=environment)
        if kills < 4:
            _wait_for_more(folder, before, process)
            time.sleep(chance.random() * 0.1)
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
        after = {r.key for r in folder.records()}
        assert before <= after
        stored = {r.key for r in Store(str(database)).all()}
        # Killed between the two, a measurement is in the folder alone; nowhere is one that was not finished.
        assert stored <= after and len(after - stored) <= kills
    launched = log.read_text().splitlines()
    # Each kill may cost the one that was being measured, and the one that was not in the folder yet.
    assert len(launched) <= work(plan) + 2 * kills
    with_times = [r for r in folder.records() if r.is_good]
    assert len(with_times) == work(plan)


def test_the_measuring_process_ends_with_its_parent(tmp_path: Path, database: Path) -> None:
    folder = tunelib.built(tmp_path / "c", tunelib.planned())
    log = tmp_path / "log"
    environment = {**os.environ, "TUNELIB_LOG": str(log), "TUNELIB_SLEEP": "30"}
    command = (sys.executable, "-c", MEASURE, os.path.dirname(tunelib.__file__), folder.path)
    process = subprocess.Popen(command, env=environment)
    wait_for(log.exists)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.wait()
    assert children and all(gone(int(child)) for child in children)


def test_a_worker_starts_anew_after_a_death(tmp_path: Path) -> None:
    path = tmp_path / "k.so"
    path.write_text(json.dumps({"does": "crash"}))
    with fake() as worker:
        worker.hello()
        with pytest.raises(Died, match="SIGSEGV"):
            worker.ask(5, do="try", path=str(path), budget_us=1.0)
        assert not worker.is_running
        assert worker.hello()["card"] == tunelib.CARD
        assert worker.starts == 2


def test_a_cut_line_loses_nothing_else(tmp_path: Path, database: Path) -> None:
    plan = tunelib.planned(dims=tunelib.SIZES[:1])
    folder = tunelib.built(tmp_path / "c", plan)
    measure(folder.path, worker=fake())
    path = tmp_path / "c" / "results.jsonl"
    whole = path.read_text()
    path.write_text(whole[:-20])
    kept = folder.records()
    kernel = plan.kernels[0]
    added = tunelib.record(kernel, kernel.sizes[0], kernel.candidates[0], 1.0)
    folder.add([added])
    assert {r.key for r in folder.records()} == {*(r.key for r in kept), added.key}
    assert Folder(folder.path).records()[0].key in {r.key for r in folder.records()}


def test_results_are_about_the_libraries_that_were_measured(tmp_path: Path, database: Path) -> None:
    """The machine that measures may have another mucc than the one that built."""
    import dataclasses

    plan = dataclasses.replace(tunelib.planned(dims=tunelib.SIZES[:1]), support="of-another-tree")
    folder = measure(tunelib.built(tmp_path / "c", plan).path, worker=fake())
    assert {r.support for r in folder.records()} == {"of-another-tree"}
    assert all(r.best is not None for r in results(folder))
