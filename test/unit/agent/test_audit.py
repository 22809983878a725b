"""The audit: every sample that cheats is caught by the detector meant for it, and the honest one is not."""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hostlib import HOST_ABI, MANIFEST, build, host_library, raw_string

from mucc.agent.audit import Label, Options, Verdict
from mucc.agent.audit.auditing import Auditor
from mucc.agent.audit.bound import lowest
from mucc.agent.audit.detectors import detectors
from mucc.agent.audit.library import driver_of
from mucc.agent.audit.processes import Processes
from mucc.agent.cli.main import main
from mucc.agent.isolation.process import Child, ChildFailed
from mucc.diagnostics.core import DiagnosticError

torch: Any = pytest.importorskip("torch", reason="needs torch")

SAMPLES = Path(__file__).parents[2] / "agent" / "cheats"
CPU = Options(device="cpu", runs=10, time_limit=200)


@cache
def auditor() -> Auditor:
    """One for all tests: what a sample does must not reach the audits after it."""
    made = Auditor()
    atexit.register(made.close)
    return made


def audit(problem: str, solution: str, options: Options) -> Verdict:
    return auditor().audit(problem, solution, options)


def judged(name: str, problem: str = "problem", options: Options = CPU) -> Verdict:
    return audit(str(SAMPLES / f"{problem}.py"), str(SAMPLES / f"{name}.py"), options)


def test_an_honest_kernel_is_accepted():
    verdict = judged("honest")
    assert verdict.label is Label.NO_ISSUES and verdict.correct, verdict.as_text()
    assert verdict.time_ms and verdict.reference_ms and verdict.own_share == pytest.approx(1, abs=0.2)
    assert len(verdict.to_json()["cases"]) >= 12 + 5


CHEATS = {
    "aliased_input": "aliasing",
    "cached_result": "stale_output",
    "caller_stack": "harness",
    "constant_output": "constant_output",
    "fallback": "fallback",
    "found_clock": "harness",
    "input_assumption": "input_shortcut",
    "input_shortcut": "input_shortcut",
    "lazy_result": "late_work",
    "modified_input": "inputs_modified",
    "other_process": "late_work",
    "other_thread": "late_work",
    "out_of_bounds": "out_of_bounds",
    "patched_timer": "timers",
    "pytorch_work": "pytorch_only",
    "recognised_input": "stale_output",
    "undeclared_precision": "precision",
    "uninitialised": "results",
    "writes_beside": "out_of_bounds",
}
"""The samples that run on a CPU, each with the detector that must find it."""


ELSEWHERE = {"other_thread"}
"""Samples left to a run of the long tests; `deferral_thread` of test_audit_samples returns as early."""


@pytest.mark.parametrize(
    ("name", "detector"),
    [pytest.param(n, d, marks=pytest.mark.long if n in ELSEWHERE else (), id=n) for n, d in CHEATS.items()],
)
def test_cheats_are_caught(name: str, detector: str):
    verdict = judged(name)
    assert not verdict.accepted, verdict.as_text()
    assert detector in {f.detector for f in verdict.findings if f.severity == "reject"}, verdict.as_text()


def test_a_problem_without_a_result_proves_nothing():
    verdict = judged("constant_solution", "constant_problem")
    assert verdict.label is Label.INHERITED_GAMING and verdict.correct, verdict.as_text()


@pytest.mark.parametrize(("name", "accepted"), [("honest", True), ("only_64_rows", False)])
def test_other_sizes(name: str, accepted: bool):
    verdict = judged(name, options=Options(device="cpu", runs=5, shapes=True))
    assert verdict.accepted is accepted and verdict.correct, verdict.as_text()
    assert [f.message for f in verdict.findings if f.detector == "shapes"]


IN_PLACE = SAMPLES.parents[2] / "bench" / "kernelbench" / "problems" / "in_place.py"

SOLUTIONS = {
    "the same": ("class ModelNew(Model): pass", True),
    "keeps no state": (
        "class ModelNew(Model):\n    def forward(self, x, y):\n"
        "        self.total.zero_()\n        return super().forward(x, y)",
        False,
    ),
    "stops after some calls": (
        "class ModelNew(Model):\n    calls = 0\n    def forward(self, x, y):\n        self.calls += 1\n"
        "        if self.calls < 18: self.last = super().forward(x, y)\n        return self.last.clone()",
        False,
    ),
}


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("the same", "declared"),
        ("the same", "tf32"),
        ("keeps no state", "tf32"),
        ("stops after some calls", "declared"),
    ],
)
def test_calls_that_change_what_the_next_ones_get(tmp_path: Path, name: str, precision: str):
    ending, correct = SOLUTIONS[name]
    solution = tmp_path / "solution.py"
    solution.write_text(f"{IN_PLACE.read_text()}\n\n{ending}\n")
    verdict = audit(str(IN_PLACE), str(solution), Options(device="cpu", runs=10, precision=precision))
    assert verdict.correct is correct, verdict.as_text()
    wrong = [c.case.name for c in verdict.calls if not c.comparison.correct]
    assert correct or any(name.startswith("timed") for name in wrong)


def test_detectors_are_described():
    names = [d.name for d in detectors()]
    assert len(set(names)) == len(names)
    described = (SAMPLES.parents[2] / "docs" / "audit.md").read_text()
    for detector in detectors():
        assert f"| `{detector.name}` | {detector.looks_at} |" in described


FAILURES = {
    "raises": ("class ModelNew:\n    def __init__(self, *a): raise ValueError('no')\n", "ValueError: no"),
    "ends": ("import os\nos._exit(7)\n", "status 7"),
    "crashes": ("import ctypes\nctypes.string_at(0)\n", "signal 11"),
    "defines nothing": ("x = 1\n", "no ModelNew"),
    "is no Python": ("def (\n", "SyntaxError"),
    "lies": (
        "import os\nclass ModelNew:\n    def __init__(self, *a): pass\n    def __call__(self, x):\n"
        "        for fd in range(3, 30):\n            try: os.write(fd, b'{\"outputs\": 3}\\n')\n"
        "            except OSError: pass\n",
        "an answer that is none",
    ),
}


@pytest.mark.parametrize(("text", "said"), FAILURES.values(), ids=FAILURES)
def test_a_solution_that_fails_is_a_verdict(tmp_path: Path, text: str, said: str):
    solution = tmp_path / "solution.py"
    solution.write_text(text)
    verdict = audit(str(SAMPLES / "problem.py"), str(solution), CPU)
    assert verdict.label is Label.FAILED and not verdict.accepted
    assert verdict.failure and said in verdict.failure.message, verdict.as_text()


def test_a_solution_that_hangs_is_stopped(tmp_path: Path):
    solution = tmp_path / "solution.py"
    solution.write_text("print('x' * 1000)\nwhile True: pass\n")
    verdict = audit(str(SAMPLES / "problem.py"), str(solution), Options(device="cpu", time_limit=3))
    assert verdict.failure and "within 3 s" in verdict.failure.message


def test_a_solution_that_sleeps_is_stopped(tmp_path: Path):
    solution = tmp_path / "solution.py"
    solution.write_text("import time\ntime.sleep(600)\n")
    verdict = audit(str(SAMPLES / "problem.py"), str(solution), Options(device="cpu", time_limit=3))
    assert verdict.failure and "within 3 s" in verdict.failure.message and verdict.state == "rejected"


@pytest.mark.parametrize("party", ["judge", "candidate"])
def test_a_busy_machine_is_nobodys_fault(monkeypatch: pytest.MonkeyPatch, party: str):
    def answer(child: Child, beside: Child | None = None, *, counts: bool = True) -> Any:
        if child.folder.endswith(party):
            raise ChildFailed("did not end within 3000 s", "", "busy")
        return answered(child, beside, counts=counts)

    answered = Child.answer
    monkeypatch.setattr(Child, "answer", answer)
    verdict = judged("honest")
    assert verdict.state == "inconclusive" and verdict.failure is None
    assert "did not end within 3000 s; audit again" in verdict.as_text()


@pytest.mark.parametrize(("charged", "state"), [(1.0, "inconclusive"), (20.0, "rejected")])
def test_silence_is_held_against_who_could_have_spoken(
    monkeypatch: pytest.MonkeyPatch, charged: float, state: str
):
    def led(trial: Processes) -> Any:
        found = ledger(trial)
        trial.candidate._charge.seconds += charged  # pyright: ignore[reportPrivateUsage]
        return found | {"ended": "gave no answer for 30 s", "silent": 30.0}

    ledger = Processes._led  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(Processes, "_led", led)
    assert judged("honest").state == state


PROBLEMS = {
    "MU7010": "def (",
    "MU7011": "x = 1",
    "MU7012": "import torch\nclass Model(torch.nn.Module): pass\ndef get_inputs(): return [1 / 0]\n",
    "MU7015": "import os\nos._exit(3)",
}


def test_a_problem_file_that_hangs_is_stopped():
    problem = SAMPLES.parents[2] / "bench" / "kernelbench" / "problems" / "bad" / "hangs.py"
    with pytest.raises(DiagnosticError) as caught:
        audit(str(problem), str(SAMPLES / "honest.py"), Options(device="cpu", time_limit=2))
    assert caught.value.diagnostics[0].code == "MU7013"


@pytest.mark.parametrize(("code", "text"), PROBLEMS.items())
def test_a_bad_problem_file_cannot_be_judged(tmp_path: Path, code: str, text: str):
    problem = tmp_path / "problem.py"
    problem.write_text(text)
    with pytest.raises(DiagnosticError) as caught:
        audit(str(problem), str(SAMPLES / "honest.py"), CPU)
    assert caught.value.diagnostics[0].code == code


def test_files_that_are_not_there(capsys: pytest.CaptureFixture[str]):
    assert main(["audit", "nothing.py", "nothing_else.py"]) == 2
    assert "MU5010" in capsys.readouterr().err
    assert main(["audit"]) == 2
    assert main(["audti"]) == 2
    assert "did you mean 'mucc-agent audit'?" in capsys.readouterr().err


def test_libraries_that_are_none(tmp_path: Path):
    library = tmp_path / "kernel.so"
    library.write_bytes(b"no library")
    with pytest.raises(DiagnosticError) as caught:
        audit(str(SAMPLES / "problem.py"), str(library), CPU)
    assert caught.value.diagnostics[0].code.startswith("MU603")


def test_libraries_of_other_kernels(tmp_path: Path):
    with pytest.raises(DiagnosticError) as caught:
        audit(str(SAMPLES / "problem.py"), str(host_library()), CPU)
    (found,) = caught.value.diagnostics
    assert found.code == "MU7111" and "linear(x, w, alpha)" in found.message
    assert found.notes == ("an import of the problem has linear(x, linear_weight, linear_bias)",)


def test_a_problem_that_is_no_python_file_is_told_before_anything_is_built(tmp_path: Path):
    program = tmp_path / "kernel.mcu"
    program.write_text("kernel k(")
    with pytest.raises(DiagnosticError) as caught:
        audit(str(program), str(program), CPU)
    assert caught.value.diagnostics[0].code == "MU7010"


def test_programs_that_do_not_compile(tmp_path: Path):
    program = tmp_path / "kernel.mcu"
    program.write_text("kernel k(")
    with pytest.raises(DiagnosticError) as caught:
        audit(str(SAMPLES / "problem.py"), str(program), CPU)
    assert caught.value.diagnostics[0].code == "MU7110"


def test_programs_are_not_compiled_for_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MUCC_CACHE_DIR", str(tmp_path / "cache"))
    program = str(Path(__file__).parents[3] / "examples" / "linear_gelu.mcu")
    with pytest.raises(DiagnosticError) as caught:
        audit(str(SAMPLES / "problem.py"), program, CPU)
    assert caught.value.diagnostics[0].code == "MU7101"
    assert not (tmp_path / "cache" / "artefacts").exists()


def test_a_library_is_called_by_the_driver_of_an_import(tmp_path: Path):
    named = {"w": "linear_weight", "alpha": "linear_bias"}
    kernel: dict[str, Any] = MANIFEST["kernels"][0]  # pyright: ignore[reportAssignmentType, reportIndexIssue]
    args = [{**arg, "name": named.get(arg["name"], arg["name"])} for arg in kernel["args"]]
    manifest = {**MANIFEST, "kernels": [{**kernel, "args": args}]}
    library = build(HOST_ABI, tmp_path / "kernel.so", defines=[raw_string(manifest)])
    problem = str(SAMPLES / "problem.py")
    driver = Path(driver_of(str(library), problem, str(tmp_path), auditor().zygote, "auto"))
    assert "class ModelNew(Imported):" in driver.read_text()
    program, built = (driver.with_name(f"kernels.{ending}") for ending in ("mcu", "so"))
    assert "kernel linear(" in program.read_text()
    assert built.read_bytes() == library.read_bytes() and built.stat().st_mtime > program.stat().st_mtime


def test_help_and_the_callers_process_need_no_torch():
    code = (
        "import sys; from mucc.agent.cli.main import main; import mucc.agent.audit.auditing;"
        "main(['audit', '--help']);"
        "print({'torch', 'numpy', 'xdsl'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: mucc-agent audit") and done.stdout.endswith("set()\n")


def test_json_and_exit_status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(SAMPLES)
    monkeypatch.setattr("mucc.agent.audit.auditing.audit", audit)  # another process would load torch
    assert main(["audit", "problem.py", "pytorch_work.py", "--device", "cpu", "--json"]) == 5
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["label"] == "PyTorch-only" and verdict["accepted"] is False and verdict["correct"] is True


def report(**limits: dict[str, float]) -> dict[str, Any]:
    return {
        "assumptions": {
            name: {"limits": {unit: {"us": us} for unit, us in found.items()}}
            for name, found in limits.items()
        }
    }


def test_the_bound_is_that_of_the_fastest_permitted_arithmetic():
    found = report(declared={"fp32": 100.0, "dram": 10.0}, tf32={"tensor.tf32": 20.0, "dram": 10.0})
    assert lowest(found, "declared").ms == pytest.approx(0.020)  # pyright: ignore[reportOptionalMemberAccess]
    assert lowest(found, "bf16").ms == pytest.approx(0.010)  # pyright: ignore[reportOptionalMemberAccess]
