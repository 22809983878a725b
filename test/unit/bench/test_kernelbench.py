"""`bench.kernelbench`: finished rows survive a kill, means leave nothing out, bad files cost one row."""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from bench.kernelbench import bounds, building, importing, measuring, report
from bench.kernelbench.__main__ import main
from bench.kernelbench.children import Limits, Sharing, Turn, _Child, run_each
from bench.kernelbench.measuring import BASELINES, is_short
from bench.kernelbench.options import Options
from bench.kernelbench.records import Records
from bench.kernelbench.rows import figures, geomean, row_of, speedup
from mucc.agent.importing.problems import Problem, find_problems
from mucc.diagnostics.core import DiagnosticError
from mucc.process.gpu_memory import Room

ROOT = Path(__file__).parents[3]
PROBLEMS = ROOT / "bench" / "kernelbench" / "problems"
EASY = Limits(300.0, 2 << 30)


# Finished rows


def test_rows_are_found_by_what_they_depend_on(tmp_path: Path):
    records = Records(tmp_path / "rows.jsonl")
    records.add("a/x", "import", "1", {"imported": True})
    records.add("a/x", "import", "2", {"imported": False})
    again = Records(tmp_path / "rows.jsonl")
    assert again.find("a/x", "import", "2") == {"imported": False}
    assert again.find("a/x", "import", "1") is None
    assert again.find("a/x", "import") == {"imported": False}
    assert again.find("a/y", "import") is None


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_line_that_was_cut_short_costs_only_itself(tmp_path: Path, cut: int):
    path = tmp_path / "rows.jsonl"
    records = Records(path)
    records.add("a/x", "import", "1", {"ms": 1.0})
    records.add("a/y", "import", "1", {"ms": 2.0})
    path.write_bytes(path.read_bytes()[:-cut])
    again = Records(path)
    assert again.find("a/x", "import") == {"ms": 1.0}
    again.add("a/z", "import", "1", {"ms": 3.0})
    assert Records(path).find("a/z", "import") == {"ms": 3.0}
    assert Records(path).find("a/x", "import") == {"ms": 1.0}


SLOW = """
import sys, time
from pathlib import Path
from bench.kernelbench.children import Limits, run_each
from bench.kernelbench.records import Records
folder = Path(sys.argv[1])
records = Records(folder / "rows.jsonl")
def work(n, turn):
    time.sleep(0.02)
    with open(folder / "done", "a") as file:
        file.write(f"{n}\\n")
    return {"n": n}
tasks = [n for n in range(60) if records.find(f"a/{n}", "import") is None]
for n, values in run_each(tasks, work, lambda n: folder / "log", Limits(300, 1 << 30), 2):
    records.add(f"a/{n}", "import", "", values)
"""


def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path: Path):
    """Killed again and again, no finished row is lost, and only what was under way is done twice."""
    kills = 0
    for _ in range(40):
        process = subprocess.Popen([sys.executable, "-c", SLOW, str(tmp_path)], cwd=ROOT)
        before = len(_lines(tmp_path / "rows.jsonl"))
        while process.poll() is None and len(_lines(tmp_path / "rows.jsonl")) < before + 7:
            time.sleep(0.005)
        if process.poll() is not None:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
        assert len(_lines(tmp_path / "rows.jsonl")) >= before + 7
    assert kills > 3
    records = Records(tmp_path / "rows.jsonl")
    assert all(records.find(f"a/{n}", "import") == {"n": n} for n in range(60))
    assert len(_lines(tmp_path / "done")) <= 60 + 4 * kills


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []


# Children


def ends(task: str, turn: Turn) -> dict[str, Any]:
    match task:
        case "raises":
            raise ValueError("bad luck\nand more")
        case "exits":
            os._exit(3)
        case "hangs":
            time.sleep(600)
        case "allocates":
            held = b"\1" * (600 << 20)
            time.sleep(600)
            return {"held": len(held)}
        case "allocates less":
            held = b"\1" * (240 << 20)
            time.sleep(600)
            return {"held": len(held)}
        case "asks for too much":
            return {"held": len(bytearray(8 << 30))}
        case _:
            print("words")
    return {"good": True}


def test_files_that_the_parent_has_mapped_are_no_room_for_a_child(tmp_path: Path):
    size = 200 << 20
    with (tmp_path / "file").open("wb+") as file:
        file.truncate(size)
        with mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as mapped:
            assert not any(mapped[place] for place in range(0, size, mmap.PAGESIZE))  # all of it is read
            limits = Limits(60.0, 100 << 20)
            found = dict(run_each(["allocates less"], ends, lambda t: tmp_path / f"{t}.log", limits))
    assert found == {"allocates less": {"error": "more than 100 MiB of memory"}}


@pytest.mark.parametrize(
    ("task", "limits", "words"),
    [
        ("raises", EASY, "ValueError: bad luck"),
        ("exits", EASY, "its process ended with status 3"),
        ("hangs", Limits(0.3, 1 << 30), "no end within 0.3 s"),
        ("allocates", Limits(300.0, 100 << 20), "more than 100 MiB of memory"),
        ("asks for too much", Limits(300.0, 1 << 30, address_space=True), "MemoryError: no message"),
    ],
)
def test_what_a_child_does_costs_one_row(tmp_path: Path, task: str, limits: Limits, words: str):
    tasks = ["prints", task, "prints again"] if limits.seconds > 1 else [task]
    found = dict(run_each(tasks, ends, lambda t: tmp_path / f"{t}.log", limits, 2))
    assert found.pop(task) == {"error": words}
    assert all(row == {"good": True} for row in found.values())
    if not found:
        return
    assert (tmp_path / "prints.log").read_text() == "words\n"


def test_what_times_has_the_machine_to_itself(tmp_path: Path):
    """Between its turn and its end no other child runs."""

    def work(task: int, turn: Turn) -> dict[str, Any]:
        time.sleep(0.02)
        turn()
        began = time.monotonic()
        time.sleep(0.15)
        return {"began": began, "ended": time.monotonic()}

    rows = dict(run_each(range(4), work, lambda t: tmp_path / str(t), EASY, 4))
    spans = sorted((row["began"], row["ended"]) for row in rows.values())
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(spans))


def test_waiting_for_a_turn_costs_no_time():
    child = _Child("task", None, cast(Any, None), left=10.0, since=100.0)
    assert not child.overdue(109.0) and child.overdue(111.0)
    child.ready = True
    assert not child.overdue(1000.0)
    child.timing = True
    assert child.overdue(1000.0)


def test_tasks_share_the_memory_of_the_gpu(tmp_path: Path):
    """What is taken together fits; what runs short is done again alone; nothing is lost."""
    at_work, once = tmp_path / "at-work", tmp_path / "once"
    at_work.mkdir()

    def work(task: int, turn: Turn) -> dict[str, Any]:
        (at_work / f"{task}").touch()
        turn()  # all that fit are there by now
        together = sorted(map(int, os.listdir(at_work)))
        short = task == 3 and not once.exists()
        once.touch()
        (at_work / f"{task}").unlink()
        return {"together": together, "error": "CUDA out of memory" if short else ""}

    sharing = Sharing(Room(10), lambda task: task, is_short)
    rows = dict(run_each([3, 4, 2, 9, 30], work, lambda t: tmp_path / f"{t}.log", EASY, 8, sharing))
    assert sorted(rows) == [2, 3, 4, 9, 30] and not any(row["error"] for row in rows.values())
    assert rows[3]["together"] == [3]
    assert all(sum(row["together"]) <= 10 for task, row in rows.items() if task != 30)
    assert rows[30]["together"] == [30] and any(len(row["together"]) > 1 for row in rows.values())


@pytest.mark.parametrize(
    ("row", "short"),
    [
        ({"failed": {"compiled": "OutOfMemoryError: CUDA out of memory."}}, True),
        ({"unjudged": "error[MU7015]: ... CUDA error: out of memory"}, True),
        ({"error": "OutOfMemoryError: CUDA out of memory"}, True),
        ({"failed": {"compiled": "TypeError: no"}, "failure": None}, False),
        ({"ms": 1.0}, False),
    ],
)
def test_what_has_run_out_of_memory(row: dict[str, Any], short: bool):
    assert is_short(row) == short


# Problem files


def test_files_come_in_the_order_of_their_numbers(tmp_path: Path):
    for name in ("10_b.py", "9_a.py", "notes.txt"):
        (tmp_path / name).write_text("")
    found = find_problems([str(tmp_path), str(tmp_path / "9_a.py")])
    assert [p.key for p in found] == [f"{tmp_path.name}/9_a", f"{tmp_path.name}/10_b"]
    assert [p.number for p in found] == [9, 10]
    assert [p.name for p in find_problems([str(tmp_path)], "10")] == ["10_b"]


@pytest.mark.parametrize(
    ("names", "code"), [(["nowhere"], "MU5010"), (["."], "MU5010"), (["a", "b/a"], "MU5001")]
)
def test_files_that_are_not_there_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], code: str
):
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "b/a"):
        Path(folder).mkdir(parents=True)
        Path(folder, "x.py").write_text("")
    with pytest.raises(DiagnosticError) as caught:
        find_problems(names)
    assert caught.value.diagnostics[0].code == code


# Means


def row(**values: Any) -> dict[str, Any]:
    return {"level": "g", "problem": "p", "imported": True, "compiled": "whole", "errors": [], **values}


def test_a_problem_that_falls_back_counts_as_one():
    good = {"correct": True, "accepted": True}
    times = {"ms": 1.0, "default_ms": 8.0, "tf32_ms": 2.0}
    assert speedup(row(**times, **good), "default") == 8
    assert speedup(row(**times, **good), "compile") == 1  # the baseline has no time
    assert speedup(row(**times, correct=True, accepted=False), "default") == 1
    assert speedup(row(**times, correct=False, accepted=True), "default") == 1
    assert speedup(row(default_ms=8.0), "default") == 1
    assert speedup(row(ms=4.0, default_ms=2.0, **good), "default") == 0.5


def test_no_problem_is_left_out_of_a_mean(tmp_path: Path):
    records = Records(tmp_path / "rows.jsonl")
    imported = {"imported": True, "compiled": "parts", "share": 0.5, "seconds": 1.0, "cpu_seconds": 0.5}
    judged = {"label": "No Issues", "accepted": True, "correct": True}
    records.add("g/fast", "import", "", imported | {"sol_ms": 0.5})
    records.add("g/fast", "measure", "", judged | {"ms": 1.0, "default_ms": 16.0, "compile_ms": 2.0})
    records.add("g/slow", "import", "", imported)
    records.add("g/slow", "measure", "", judged | {"ms": 4.0, "default_ms": 1.0})
    records.add("g/gamed", "import", "", imported)
    gamed = {"label": "Original Gaming", "accepted": False, "correct": True, "ms": 0.001, "default_ms": 1.0}
    records.add("g/gamed", "measure", "", gamed)
    records.add("g/broken", "import", "", {"error": "no end within 300 s"})
    rows = [row_of(records, "g", name, None) for name in ("fast", "slow", "gamed", "broken")]
    found = figures(rows)
    assert found["kernelbench.g_over_default_geomean"] == round(geomean([16.0, 0.25, 1.0, 1.0]), 4)
    assert found["kernelbench.g_over_compile_geomean"] == round(geomean([2.0, 1.0, 1.0, 1.0]), 4)
    assert found["kernelbench.g.fallbacks"] == 2
    assert found["kernelbench.g.gap_geomean"] == 2
    assert (found["import.g.problems"], found["import.g.imported"]) == (4, 3)
    assert report.table(rows) == TABLE


TABLE = """\
problem   import  compiled  right  label            ms      default    tf32  compile  bound   gap   problems
g/fast    yes     50%       yes    No Issues        1.0000  16.00      -     2.00     0.5000  2.00
g/slow    yes     50%       yes    No Issues        4.0000  0.25       -     -        -       -
g/gamed   yes     50%       yes    Original Gaming  0.0010  (1000.00)  -     -        -       -
g/broken  no      none      -      -                -       -          -     -        -       -     \
import: no end within 300 s
"""


def test_speeds_are_drawn(tmp_path: Path):
    pytest.importorskip("matplotlib")
    rows = [row(problem="a", default_ms=2.0, default_speedup=2.0), row(problem="b")]
    unfinished = row(problem="c", default_ms=2.0, default_speedup=None)
    assert report.plot([*rows, unfinished], tmp_path / "x.png", "speed")
    assert (tmp_path / "x.png").stat().st_size > 5000
    assert not report.plot(rows[1:], tmp_path / "y.png", "speed")


# The whole command, with a stand-in for what needs a compiler and a GPU


def test_the_command_from_files_to_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("torch")

    def build_all(programs: Any, options: Options) -> Any:
        for path in programs:
            path.with_suffix(".so").write_bytes(b"library")
            yield path, {"built": True, "cached": False}

    def measure(problem: Problem, options: Options, imported: Any, turn: Turn) -> dict[str, Any]:
        turn()
        driver = tmp_path / "work" / problem.group / problem.name / f"{imported['name']}_driver.py"
        assert "class ModelNew" in driver.read_text()
        times = {"ms": 0.5, "default_ms": 1.0, "tf32_ms": 0.25, "compile_ms": 0.5}
        return {"label": "No Issues", "accepted": True, "correct": True, **times}

    monkeypatch.setattr(building, "build_all", build_all)
    monkeypatch.setattr(measuring, "measure", measure)
    monkeypatch.setattr("bench.kernelbench.run.Run._card", lambda _: ("stand-in", {"gpu": "stand-in"}))
    monkeypatch.setattr("bench.kernelbench.run.package_fingerprint", lambda: "same")
    bad = [str(PROBLEMS / "bad" / f"{name}.py") for name in ("raises", "prints")]
    command = [str(PROBLEMS / "linear_gelu.py"), *bad, "-o", str(tmp_path / "work"), "--device", "cuda"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "import bad/raises: FAILED: error[MU7012]" in said
    result = json.loads((tmp_path / "work" / "report.json").read_text())
    assert result["summary"]["kernelbench.problems_over_default_geomean"] == 2
    assert result["summary"]["kernelbench.all_over_tf32_geomean"] == round(geomean([0.5, 1.0, 1.0]), 4)
    rows = {r["problem"]: r for r in result["rows"]}
    assert rows["linear_gelu"]["compiled"] == "whole" and rows["linear_gelu"]["agrees"]
    assert rows["linear_gelu"]["gap"] == pytest.approx(0.5 / rows["linear_gelu"]["sol_ms"])
    assert rows["raises"]["errors"] and not rows["raises"]["imported"]
    assert (tmp_path / "work" / "report.txt").read_text() in said
    assert main(command) == 0
    again = capsys.readouterr().out
    assert "import: 3 of 3 are done" in again and "measure: 1 of 1 are done" in again
    program = tmp_path / "work" / "problems" / "linear_gelu" / "linear_gelu.mcu"
    program.write_text(program.read_text() + "// changed\n")
    assert main([*command, "--measure-only"]) == 0
    assert "measure" not in capsys.readouterr().out.partition("\n\n")[0]  # built from another program


def test_a_candidate_is_compared_and_timed_beside_three_baselines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """On the CPU, with PyTorch as the stand-in for kernels, and another clock."""
    torch: Any = pytest.importorskip("torch")
    options = Options(tmp_path, "cpu", check=False, audit=False)
    problem = Problem(PROBLEMS / "linear_gelu.py")
    imported = importing.import_problem(problem, options)

    class Kernels:
        factor = 0.5

        def linear_gelu(self, x: Any, w: Any, b: Any) -> Any:
            return torch.nn.functional.gelu(torch.nn.functional.linear(x, w, b)) * self.factor

    def interleaved(contenders: Any, runs: int, *_: Any) -> dict[str, list[float]]:
        assert runs <= options.runs
        for call in contenders.values():
            call()
        return {name: [2.0 if name == "mucc" else 3.0] * 2 for name in contenders}

    monkeypatch.setattr("mucc.runtime.imported.load_kernels", lambda *_: Kernels())
    monkeypatch.setattr("mucc.agent.evaluate.timing.interleaved_ms", interleaved)
    monkeypatch.setattr(torch, "compile", lambda model: model)
    turns: list[int] = []
    row = measuring.measure(problem, options, imported, lambda: turns.append(1))
    assert turns == [1]
    assert row == {"failed": {}, "agrees_on_gpu": True, "ms": 2.0} | {f"{b}_ms": 3.0 for b in BASELINES}
    Kernels.factor = 0.499
    assert not measuring.measure(problem, options, imported, lambda: None)["agrees_on_gpu"]
    monkeypatch.setattr(torch, "compile", lambda model: 1 / 0)
    failed = measuring.measure(problem, options, imported, lambda: None)
    assert "compile_ms" not in failed and "ZeroDivisionError" in failed["failed"]["compile"]


def test_without_a_gpu_it_says_that_nothing_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("torch")
    options = ["-o", str(tmp_path), "--device", "cpu", "--no-check", "--time-limit", "5"]
    assert main([str(PROBLEMS / "bad" / "hangs.py"), str(PROBLEMS / "views.py"), *options]) == 0
    said = capsys.readouterr().out
    assert "nothing is built or measured" in said and "bad/hangs: FAILED: no end within 5 s" in said
    assert "import.bad.imported" in said and "_geomean" not in said


def test_no_files_is_a_coded_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([str(tmp_path / "nowhere"), "-o", str(tmp_path)]) == 1
    assert "MU5010" in capsys.readouterr().err


# Bounds


def test_a_bound_above_a_time_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    torch = pytest.importorskip("torch")
    torch.randn(2000, 2000).exp().sum()  # has threads of its own, which forks do not inherit
    folder = tmp_path / "level1"
    folder.mkdir()
    (folder / "7_linear.py").write_text((PROBLEMS / "linear_gelu.py").read_text())
    times = tmp_path / "times.csv"
    head = "# made up\nlevel,id,name,default_ms,tf32_ms,compile_tf32_ms\n"
    work = ["-o", str(tmp_path / "work"), "--measured", str(times)]
    times.write_text(f"{head}1,7,linear,0.1,0.1,\n")
    assert bounds.main([str(folder), *work]) == 0
    times.write_text(f"{head}1,7,linear,0.1,0.0001,\n")
    assert bounds.main([str(folder), *work]) == 1
    said = capsys.readouterr().out
    assert "ABOVE tf32_ms" in said and '"bounds.level1.above_a_time": 1' in said
