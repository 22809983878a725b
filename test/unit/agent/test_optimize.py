"""`mucc-agent optimize`: the command line, imports, resuming, interrupts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import scripted
from processes import HANG
from scripted import ScriptedEvaluator, ScriptedProposer, imported, unprofiled

from mucc.agent import evaluate, profile, propose
from mucc.agent.audit.bound import lowest
from mucc.agent.cli.main import main
from mucc.agent.core.proposer import Lesson
from mucc.agent.core.tasks import Compiled
from mucc.agent.engine import device, resume
from mucc.agent.engine.locking import locked
from mucc.agent.importing.import_tasks import PRELOADED, import_all
from mucc.agent.importing.problems import Problem
from mucc.agent.isolation.zygote import Zygote
from mucc.agent.store import Store, TaskState

PROBLEMS = Path(__file__).parents[3] / "bench/kernelbench/problems"

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[ScriptedEvaluator]:
    """A machine with a GPU and scripted parts; the evaluators that were made."""
    made: list[ScriptedEvaluator] = []

    def evaluator(**_: Any) -> ScriptedEvaluator:
        made.append(ScriptedEvaluator())
        return made[-1]

    monkeypatch.setattr(device, "card_at_hand", lambda: "NVIDIA H200")
    monkeypatch.setattr(resume, "import_all", imported)
    monkeypatch.setattr(evaluate, "make", evaluator)
    monkeypatch.setattr(propose, "make", lambda *_: ScriptedProposer())
    monkeypatch.setattr(profile, "analyze", unprofiled)
    return made


@pytest.fixture
def problems(tmp_path: Path) -> str:
    folder = tmp_path / "gemm"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.py").write_text("# a problem\n")
    return str(folder)


def test_a_run_from_the_command_line(
    machine: list[ScriptedEvaluator], problems: str, tmp_path: Path, capsys: Capture
):
    run = str(tmp_path / "run")
    command = [
        "optimize",
        problems,
        "--precision",
        "tf32",
        "--budget",
        "1x2x2",
        "--window",
        "none",
        "-o",
        run,
    ]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert out == (tmp_path / "run/table.txt").read_text() and "tf32" in out and "gemm/one" in out
    assert "mucc-agent: gemm/two: done" in err
    table = json.loads((tmp_path / "run/table.json").read_text())
    assert not any(row["provisional"] for row in table["tasks"])
    assert [row["state"] for row in table["tasks"]] == ["done", "done"] and table["overhead"] is not None
    with Store(f"{run}/run.db") as store:
        info = store.info()
        assert info is not None and info.command == f"mucc-agent {' '.join(command)}"
        assert info.options["budget"]["window"] is None and info.card == "h200"
        assert [r.task.key for r in store.tasks()] == ["gemm/one", "gemm/two"]
    assert main(["optimize", "-o", run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tasks"][0]["task"] == "gemm/one"
    assert machine[0].evaluated and machine[0].closed and not machine[1].evaluated


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (["--strategy", "mi"], "MU7206"),
        (["--precision", "bf16"], "MU7206"),
        (["--budget", "2x2x2"], "MU7206"),
        (["--card", "a100"], "MU7206"),
        (["other"], "MU7206"),
        (["--tokens", "5", "-j", "3", "--total", "9"], None),
    ],
)
def test_a_run_goes_on_with_its_own_options(
    machine: list[ScriptedEvaluator],
    problems: str,
    tmp_path: Path,
    capsys: Capture,
    more: list[str],
    code: str | None,
):
    run = str(tmp_path / "run")
    assert main(["optimize", problems, "--budget", "1x1x1", "-q", "-o", run]) == 0
    other = tmp_path / "other"
    other.mkdir()
    (other / "three.py").write_text("# another\n")
    capsys.readouterr()
    more = [str(other) if word == "other" else word for word in more]
    assert main(["optimize", "-o", run, "-q", *more]) == (2 if code else 0)
    assert (code or "") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no run"),
        (["-o", "r", "--budget", "5x2"], "three numbers"),
        (["-o", "r", "--budget", "0x2x2"], "three numbers"),
        (["-o", "r", "--epsilon", "-1"], "a number or none"),
        (["-o", "r", "--window", "2.5"], "whole number"),
        (["-o", "r", "--constants", "width"], "NAME=VALUE"),
        (["-o", "r", "--jobs", "0"], "above 0"),
        (["-o", "r", "--time", "nan"], "above 0"),
        (["-o", "r", "--strategy", "mantiss"], "did you mean 'mantis'"),
        (["-o", "r", "--proposer", "openai"], "needs a model"),
        (["-o", "r"], "holds no run"),
        (["-o", "r", "nowhere.py"], "there is no 'nowhere.py'"),
        (["-o", "r", "x.py", "--strategy", "mcts", "--constants", "breadth=1"], "no constant of mcts"),
        (["-o", "r", "x.py", "--card", "h2000"], "did you mean 'h200'"),
        (["-o", "r", "x.py", "--memory", "nowhere"], "there is no run at nowhere"),
    ],
)
def test_wrong_usage_begins_nothing(
    machine: list[ScriptedEvaluator],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    words: list[str],
    said: str,
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.py").write_text("# a problem\n")
    assert main(["optimize", *words]) in (1, 2, 3)
    assert said in capsys.readouterr().err
    assert not (tmp_path / "r/run.db").exists() and not machine


def test_without_a_gpu_nothing_is_begun(
    tmp_path: Path, problems: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
):
    from mucc.build.toolchain import doctor

    monkeypatch.setattr(device, "gpu", lambda: doctor.Finding("GPU", False, "no NVIDIA driver", "run"))
    assert main(["optimize", problems, "-o", str(tmp_path / "run")]) == 3
    assert "MU7210" in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_two_processes_never_work_on_one_run(
    machine: list[ScriptedEvaluator], problems: str, tmp_path: Path, capsys: Capture
):
    with locked(str(tmp_path / "run")):
        assert main(["optimize", problems, "-o", str(tmp_path / "run")]) == 3
    assert "MU7204" in capsys.readouterr().err and not machine


def test_lessons_of_another_run_are_read(
    machine: list[ScriptedEvaluator], problems: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    assert main(["optimize", problems, "--budget", "1x2x2", "-q", "-o", first]) == 0
    seen: list[Sequence[Lesson]] = []

    class Reading(ScriptedProposer):
        def nominate(self, view: Any, count: int, parent: Any) -> Any:
            seen.append(view.lessons)
            return super().nominate(view, count, parent)

    monkeypatch.setattr(propose, "make", lambda *_: Reading())
    words = ["--budget", "1x2x2", "-q", "-o", second, "--memory", first, "-j", "1"]
    assert main(["optimize", f"{problems}/one.py", *words]) == 0
    tasks = {lesson.task for lesson in seen[0]}
    assert tasks == {"first:gemm/one", "first:gemm/two"}


WORKER = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import scripted
from scripted import imported, unprofiled
from mucc.agent import evaluate, profile, propose
from mucc.agent.cli import main
from mucc.agent.engine import device, resume
device.card_at_hand = lambda: "NVIDIA H200"
resume.import_all = imported
evaluate.make = lambda **_: scripted.ScriptedEvaluator(slow=0.02)
propose.make = lambda *_: scripted.ScriptedProposer()
profile.analyze = unprofiled
main.entry()
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_cleanly_and_says_how_to_go_on(
    problems: str, tmp_path: Path, number: signal.Signals, status: int
):
    run = tmp_path / "run"
    words = [sys.executable, "-c", WORKER, os.path.dirname(scripted.__file__), "optimize"]
    process = subprocess.Popen([*words, problems, "-o", str(run)], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines: list[str] = []
    while not any(" #3 " in line for line in lines):
        lines.append(process.stderr.readline())
        assert lines[-1], "".join(lines)
    process.send_signal(number)
    rest = process.stderr.read()
    process.stderr.close()
    assert process.wait(HANG) == status
    assert f"error[MU5119]: interrupted by {number.name}" in rest and "Traceback" not in rest
    assert f"= help: `mucc-agent optimize -o {run}` goes on from here" in rest
    with Store(str(run / "run.db")) as store:
        assert {r.state for r in store.tasks()} <= {TaskState.RUNNING, TaskState.WAITING}
        before = {key: store.attempts(key) for key in ("gemm/one", "gemm/two")}
    again = subprocess.run([*words, "-o", str(run), "-q"], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    with Store(str(run / "run.db")) as store:
        assert {r.state for r in store.tasks()} == {TaskState.DONE}
        for key, attempts in before.items():
            after = {a.number: a for a in store.attempts(key)}
            assert all(after[a.number] == a for a in attempts)


def test_problem_files_become_tasks_with_the_bound_that_the_audit_has():
    pytest.importorskip("torch")
    files = [PROBLEMS / "linear_gelu.py", PROBLEMS / "bad/raises.py", PROBLEMS / "bad/exits.py"]
    with Zygote(PRELOADED) as zygote:
        made = import_all(zygote, [Problem(f) for f in files], "tf32", "h200", "sm_90a", 2)
        found = {t.key: t for t in made}
    good = found["problems/linear_gelu"]
    assert good.imported.compiled is Compiled.WHOLE
    assert 'KERNELS = "best.mcu"' in good.imported.driver and 'PROBLEM = "problem.py"' in good.imported.driver
    bound = lowest(good.sol, "tf32")
    assert bound is not None and good.bound_ms == bound.ms > 0
    raises, exits = found["bad/raises"].imported, found["bad/exits"].imported
    assert raises.error is not None and raises.error["code"].startswith("MU70")
    assert exits.error is not None and raises.compiled is Compiled.NONE
