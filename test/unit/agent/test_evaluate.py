"""Evaluation: what becomes of candidates, good and bad, each in a real process; drivers are made by hand."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from evaluations import opened, outcome_of, problem, task_of
from processes import HANG, descendants, gone, wait_for

from mucc.agent.core.attempts import Candidate, Status
from mucc.agent.core.tasks import BASELINES, Task
from mucc.agent.evaluate import Settings
from mucc.agent.evaluate.acceptance import Judged
from mucc.agent.evaluate.build import Builder
from mucc.agent.evaluate.evaluator import LocalEvaluator
from mucc.agent.evaluate.execution import Ran
from mucc.agent.isolation import process
from mucc.build.pool import Cancelled, Pool
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.process.gpu_memory import Room
from mucc.process.sandbox.modes import Layer

torch: Any = pytest.importorskip("torch", reason="needs torch")

PROBLEM = problem(4, 64)
SETTINGS = Settings(open_seconds=HANG, run_seconds=HANG, memory=512, output=4, runs=5, time_ms=20, fewest=2)


@pytest.fixture(scope="module", autouse=True)
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the folders of ours go, and nobody else's."""
    before, tempfile.tempdir = tempfile.tempdir, str(tmp_path_factory.mktemp("scratch"))
    yield Path(tempfile.tempdir)
    tempfile.tempdir = before


@pytest.fixture(scope="module")
def evaluator(scratch: Path) -> Iterator[LocalEvaluator]:
    with opened("cpu", SETTINGS) as made:
        yield made


def task(body: str = "pass", problem: str = PROBLEM) -> Task:
    return task_of(problem, body)


BAD = {
    "hangs": ("while True: pass", Status.TIMED_OUT, "did not end within 2 s"),
    "allocates": ("a = [bytearray(1 << 26) for _ in range(1000)]", Status.OUT_OF_MEMORY, "MemoryError"),
    "allocates in torch": ("torch.empty(1 << 40)", Status.OUT_OF_MEMORY, "allocate memory"),
    "prints": ("[print('x' * 1000000) for _ in range(100)]", Status.RAISED, "too large"),
    "ends by a signal": ("ctypes.string_at(0)", Status.CRASHED, "signal 11"),
    "ends": ("os._exit(7)", Status.CRASHED, "status 7"),
    "raises": ("raise ValueError('not today')", Status.RAISED, "ValueError: not today (line 12"),
    "shape": ("return y[:2]", Status.WRONG, "has shape [2, 64], [4, 64] expected"),
    "dtype": ("return y.double()", Status.WRONG, "is float64, float32 expected"),
    "values": ("return y * 1.01", Status.WRONG, "is off by"),
    "number": ("return y, y", Status.WRONG, "2 results, 1 expected"),
    "no tensor": ("return 'y'", Status.WRONG, "is no tensor"),
    "nothing": ("return None", Status.WRONG, "is no tensor"),
    "writes elsewhere": ("open('{elsewhere}/a', 'w')", Status.RAISED, "writes outside its folder"),
    "removes elsewhere": ("os.remove('{elsewhere}/kept')", Status.RAISED, "writes outside its folder"),
    "writes elsewhere and hides it": (
        "try: open('{elsewhere}/a', 'w')\n        except OSError: pass",
        Status.RAISED,
        "writes outside its folder",
    ),
    "kills its parent": ("os.kill(os.getppid(), 9)", Status.RAISED, "Operation not permitted"),
    "answers another question": (
        'os.write(4, b\'{"card": ""}\\n\'); os._exit(0)',
        Status.CRASHED,
        "an answer that is none",
    ),
    "speaks for the process": (
        "[os.write(fd, b'no\\n') for fd in (4,)]",
        Status.CRASHED,
        "an answer that is none",
    ),
}
"""What a candidate does, what it counts as, and what is said of it."""


@pytest.mark.parametrize(("body", "status", "said"), BAD.values(), ids=BAD)
def test_what_a_candidate_does_is_an_outcome(
    evaluator: LocalEvaluator, scratch: Path, tmp_path: Path, body: str, status: Status, said: str
):
    (tmp_path / "kept").write_text("")
    before = os.listdir(scratch)
    evaluator.runner.settings = replaced(run_seconds=2.0) if "while" in body else SETTINGS
    outcome = outcome_of(evaluator, task(body.replace("{elsewhere}", str(tmp_path))))
    assert (outcome.status, said in outcome.reason) == (status, True), outcome
    assert outcome.ms is None and not outcome.counts
    assert os.listdir(tmp_path) == ["kept"] and os.listdir(scratch) == before
    assert len(outcome.printed) < 10_000


def test_a_good_candidate_is_timed_after_all_that(evaluator: LocalEvaluator):
    outcome = outcome_of(evaluator, task("print('hello')"))
    assert outcome.status is Status.GOOD and outcome.ms and outcome.spread_ms is not None, outcome
    assert not outcome.audited and not outcome.counts and "hello" in outcome.printed
    assert outcome.seconds.keys() >= {"build", "run", "wait"} and 0 <= outcome.facts["excess"] < 1


FORKS = """
        heard, said = os.pipe()
        for n in range(3):
            if os.fork() == 0:
                os.setsid()
                {kind}
                print(f"lives: {os.getpid()}\\n", end="", flush=True)  # one write: others print as well
                os.write(said, b".")
                time.sleep(100)
        other = subprocess.Popen(["sleep", "100"], start_new_session=True)
        print(f"lives: {other.pid}\\n", end="", flush=True)
        for n in range(3): os.read(heard, 1)
"""


def number_there(pid: int) -> int:
    """Return the number of a process in its own namespace, where the first two wait for requests."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("NSpid:")).split()[-1])
    return 0  # it has ended


@pytest.mark.parametrize("kind", ["pass", "os.chdir('/')", "os.fork()"])
def test_processes_that_a_candidate_started_end_with_it(evaluator: LocalEvaluator, kind: str):
    outcome = outcome_of(evaluator, task(FORKS.replace("{kind}", kind)))
    assert outcome.status is Status.GOOD, outcome
    pids = [int(line.split()[1]) for line in outcome.printed.splitlines() if line.startswith("lives:")]
    zygote = evaluator._zygote  # pyright: ignore[reportPrivateUsage]
    assert len(pids) >= 4
    if Layer.NAMESPACES in zygote.layers():  # where processes have other numbers
        server = zygote.start()._process.pid  # pyright: ignore[reportPrivateUsage]
        wait_for(lambda: all(number_there(pid) <= 2 for pid in descendants(server)))  # those wait for others
    else:
        assert all(gone(pid) for pid in pids)


def test_a_crowd_of_processes_is_ended(evaluator: LocalEvaluator, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(process, "CROWD", 20)  # the real crowd may take more memory than is permitted here
    body = "pids = [os.fork() or time.sleep(100) for _ in range(30)]; time.sleep(100)"
    outcome = outcome_of(evaluator, task(body))
    assert outcome.status is Status.CRASHED and "more than 20 processes" in outcome.reason, outcome


def test_the_fastest_that_beats_the_best_is_audited(
    evaluator: LocalEvaluator, monkeypatch: pytest.MonkeyPatch
):
    times = {"slow": 3.0, "slower": 3.5, "cheat": 1.0, "fast": 2.0, "no progress": 3.999}
    said = {True: Judged(True, "No Issues", "", {}, 1.0), False: Judged(False, "PyTorch-only", "no", {}, 1.0)}
    monkeypatch.setattr(evaluator.runner, "run", lambda _, program, __: Ran(Status.GOOD, ms=times[program]))
    monkeypatch.setattr(evaluator.judge, "judge", lambda _, __, program, ___: said[program != "cheat"])
    stages: list[tuple[int, str]] = []
    programs = ["bad", *times, "unbuilt"]
    candidates = [Candidate(text, "") for text in programs]
    watch: Any = lambda *stage: stages.append(stage)  # noqa: E731
    found = {programs[n]: o for n, o in evaluator.evaluate(task(), candidates, 4.0, watch)}
    assert (found["bad"].status, found["unbuilt"].status) == (Status.INVALID, Status.UNBUILT)
    assert found["cheat"].status is Status.REJECTED and found["cheat"].label == "PyTorch-only"
    assert [p for p, o in found.items() if o.counts] == ["fast"]
    assert {p for p, o in found.items() if o.audited} == {"cheat", "fast"}
    assert [programs[n] for n, stage in stages if stage == "audit"] == ["cheat", "fast"]
    assert {stage for n, stage in stages if not n} == {"build"}


def test_where_the_audit_rejects_the_fastest_the_next_is_audited(evaluator: LocalEvaluator):
    found = dict(evaluator.evaluate(task(), [Candidate("one", ""), Candidate("two", "")], None))
    assert [o.status for o in found.values()] == [Status.REJECTED] * 2
    for outcome in found.values():
        assert outcome.label == "PyTorch-only" and outcome.audited and "pytorch_only" in outcome.reason
        assert outcome.verdict and outcome.verdict["seconds"]["candidate.time"] > 0


def test_nothing_is_audited_that_does_not_beat_the_best(evaluator: LocalEvaluator):
    outcome = outcome_of(evaluator, task(), best_ms=1e-6)
    assert outcome.status is Status.GOOD and not outcome.audited and "audit" not in outcome.seconds


PROBLEMS = {
    "MU7012": PROBLEM.replace("return [torch.randn(4, 64)]", "return [1 / 0]"),
    "MU7013": PROBLEM + "\nwhile True: pass\n",
    "MU7010": "def (",
    "MU7015": "import os; os._exit(3)",
}


@pytest.mark.parametrize(("code", "problem"), PROBLEMS.items())
def test_a_bad_problem_file_is_an_error(evaluator: LocalEvaluator, code: str, problem: str):
    evaluator.runner.settings = replaced(open_seconds=2.0) if code == "MU7013" else SETTINGS
    with pytest.raises(DiagnosticError) as caught:
        outcome_of(evaluator, task(problem=problem))
    assert caught.value.diagnostics[0].code == code


def test_a_machine_that_cannot_build_is_an_error(evaluator: LocalEvaluator):
    with pytest.raises(DiagnosticError):
        list(evaluator.evaluate(task(), [Candidate("broken machine", "")], None))


def test_without_a_gpu_there_is_an_error(evaluator: LocalEvaluator, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(evaluator.runner, "device", "cuda")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(DiagnosticError) as caught:
        outcome_of(evaluator, task())
    assert caught.value.diagnostics[0].code == "MU7101"


def test_another_zygote_follows_one_that_was_killed(evaluator: LocalEvaluator):
    server = evaluator._zygote.start()  # pyright: ignore[reportPrivateUsage]
    server._process.kill()  # pyright: ignore[reportPrivateUsage]
    assert outcome_of(evaluator, task()).status is Status.GOOD


def test_baselines_are_timed_beside_a_candidate(evaluator: LocalEvaluator):
    quick = f"{PROBLEM}\ntorch.compile = lambda model: model\n"
    found = evaluator.compare(task(problem=quick), Candidate("one", ""))
    assert found.ms.keys() == {*BASELINES, "mucc"} and not found.failed
    assert all(ms > 0 for ms in found.ms.values())
    without = evaluator.compare(task("os._exit(1)", problem=quick), Candidate("one", ""))
    assert without.ms.keys() == {*BASELINES} and "status 1" in without.failed["mucc"]
    broken = f"{PROBLEM}\ntorch.compile = lambda model: 1 / 0\n"
    unbuilt = evaluator.compare(task(problem=broken), Candidate("bad", ""))
    assert unbuilt.failed["mucc"] == "no" and "ZeroDivisionError" in unbuilt.failed["compile"]


def test_what_the_problem_raises_while_baselines_are_made_is_told(evaluator: LocalEvaluator):
    raising = "def get_inputs():\n    raise ValueError('no data')\n\ndef other():"
    bad = PROBLEM.replace("def get_inputs():", raising)
    with pytest.raises(DiagnosticError) as caught:
        evaluator.compare(task(problem=bad), None)
    found = caught.value.diagnostics[0]
    assert found.code == "MU7012" and "ValueError: no data" in found.message


def test_baselines_that_ran_out_of_memory_are_made_again_alone(
    evaluator: LocalEvaluator, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(evaluator.comparer, "room", Room(1 << 40))
    cache = Path(evaluator.comparer.env["TRITON_CACHE_DIR"])  # which its processes may write
    cache.mkdir(parents=True, exist_ok=True)
    full = cache / "full"
    full.touch()
    short = f"""
import os
if os.path.exists({str(full)!r}):
    os.remove({str(full)!r})
    raise MemoryError("CUDA out of memory")
"""
    quick = f"{short}{PROBLEM}\ntorch.compile = lambda model: model\n"
    assert evaluator.compare(task(problem=quick), None).ms.keys() == {*BASELINES}
    assert not full.exists()


def replaced(**options: Any) -> Settings:
    import dataclasses

    return dataclasses.replace(SETTINGS, **options)


def test_closing_ends_what_runs(evaluator: LocalEvaluator):
    """The last test that needs the evaluator closes it."""
    made = evaluator
    running = threading.Event()
    errors: list[BaseException] = []

    def evaluate() -> None:
        try:
            list(made.evaluate(task("time.sleep(100)"), [Candidate("x", "")], None, lambda *_: running.set()))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=evaluate)
    thread.start()
    assert running.wait(300)
    made.close()
    thread.join(300)
    assert not thread.is_alive() and isinstance(errors[0], Cancelled)
    assert not os.path.exists(made.folder)


BUILDS = {
    "kernel k(": (Status.INVALID, "MU0001"),
    "kernel k(x: f32[M, K], w: f32[N, K]) -> f32[M, N] { return matmul(x, w) }": (Status.INVALID, "MU"),
    "": (Status.INVALID, "MU5021"),
}


@pytest.mark.parametrize(("program", "expected"), BUILDS.items())
def test_a_program_that_mucc_rejects_is_an_outcome(
    tmp_path: Path, program: str, expected: tuple[Status, str]
):
    with Pool(cores=1) as pool:
        built = Builder(pool, str(tmp_path), SETTINGS).build(task(), Candidate(program, ""))
    assert built.status is expected[0] and built.reason.startswith(expected[1]) and not os.listdir(tmp_path)
    assert built.diagnostics[0]["code"] in built.reason and built.diagnostics[0]["severity"] == "error"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DiagnosticError(Diagnostic("MU5108", "too slow")), Status.UNBUILT),
        (RuntimeError("a defect"), Status.INVALID),
    ],
)
def test_what_the_compilers_do_is_an_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, status: Status
):
    def build(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("mucc.agent.evaluate.build.build", build)
    with Pool(cores=1) as pool:
        built = Builder(pool, str(tmp_path), SETTINGS).build(task(), Candidate("kernel", ""))
    assert built.status is status and built.diagnostics[0]["code"] in ("MU5108", "MU9001")


def test_an_unsteady_series_is_taken_again(monkeypatch: pytest.MonkeyPatch):
    from mucc.agent.evaluate import timing

    disturbed, steady = [1.0, 1.0, 5.0, 9.0], [2.0, 2.0, 2.01, 2.01]
    series = [[1.0, 1.0], disturbed, steady, disturbed]
    monkeypatch.setattr(timing, "interleaved_ms", lambda *_: {"mucc": series.pop(0)})
    monkeypatch.setattr(timing, "PAUSE", 0)
    assert timing.within({}, 100, 5, 10, torch.device("cpu")) == {"mucc": steady} and len(series) == 1
    series[:] = [[1.0, 1.0], disturbed, [3.0, 3.0, 4.0, 4.0], disturbed]
    assert timing.within({}, 100, 5, 10, torch.device("cpu")) == {"mucc": [3.0, 3.0, 4.0, 4.0]}


def test_compilers_run_behind_what_is_timed():
    from mucc.agent.isolation.priority import ahead, behind, patient_run
    from mucc.build.jobs import Job, Kind

    with behind():
        pass
    assert os.getpriority(os.PRIO_PROCESS, 0) == 0
    with ahead():
        pass
    assert os.getpriority(os.PRIO_PROCESS, 0) == 0
    job = Job("p", "nice", Kind.LINK, ("nice",))
    with Pool(cores=1, runner=patient_run) as pool:
        assert pool.run(job, tools={}).log.strip() == "10"
