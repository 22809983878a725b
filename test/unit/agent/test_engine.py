"""The engine of the agent: steps are performed once, kept, and gone on with."""

from __future__ import annotations

import os
import queue
import random
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import scripted
from scripted import ScriptedEvaluator, ScriptedProposer, parts, task

from mucc.agent.budget.stopping import expected_gain
from mucc.agent.core.attempts import Candidate, Outcome, Status
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.proposer import ProposerFailed, Reply
from mucc.agent.core.strategy import Budget, Nominate, Pursue, Record
from mucc.agent.core.tasks import Compiled, Imported, OpaqueOperation
from mucc.agent.engine import task_threads
from mucc.agent.engine.clock import Clock
from mucc.agent.engine.context import RunContext
from mucc.agent.engine.locking import locked
from mucc.agent.engine.options import Options, resumed
from mucc.agent.engine.task_run import TaskRun, first_record
from mucc.agent.engine.task_threads import run_tasks, turns_of
from mucc.agent.engine.turns import Interrupted, Seats, Shared
from mucc.agent.store import Store, TaskRecord, TaskState
from mucc.diagnostics.core import Diagnostic, DiagnosticError


def begun(made: RunContext, *keys: str) -> list[TaskRecord]:
    for key in keys or ("gemm/square",):
        made.store.put_task(first_record(task(key)))
    return made.store.tasks()


def shown(store: Store) -> Any:
    """All that a run decided, without times."""
    found: dict[str, Any] = {}
    for record in store.tasks():
        key = record.task.key
        found[key] = {
            "attempts": [(a.number, a.candidate, a.outcome) for a in store.attempts(key)],
            "steps": [(s.index, s.kind, s.request, s.result) for s in store.steps(key)],
            "hypotheses": store.hypotheses(key),
            "documents": [(d.phase, d.markdown, d.data) for d in store.documents(key)],
            "result": record.result,
            "stop": record.stop,
            "state": record.state,
            "pending": store.pending(key),
        }
    return found


@pytest.mark.parametrize("strategy", ["mantis", "mi", "mcts"])
def test_a_run_measures_searches_and_compares(tmp_path: Path, strategy: str):
    made = parts(tmp_path, strategy=strategy)
    ending = run_tasks(made, begun(made, "gemm/square", "mlp/gpt2"))
    assert not ending.problems and not ending.failed
    for record in made.store.tasks():
        key = record.task.key
        attempts = made.store.attempts(key)
        assert record.state is TaskState.DONE and attempts[0].candidate.change == "as imported"
        best = min((a for a in attempts if a.ms is not None), key=lambda a: a.ms or 0)
        assert record.result["attempt"] == best.number and record.result["ms"]["mucc"] == best.ms
        assert record.result["speedups"]["compile"] == pytest.approx(1.5 / (best.ms or 0))
        assert record.task.baselines == scripted.BASELINES and record.result["precision"] == "tf32"
        assert 20 < sum(a.spent for a in attempts[1:]) <= 40
        assert (tmp_path / key / "best.mcu").read_text() == best.candidate.program
        assert (tmp_path / key / "00-measure.md").exists() and (tmp_path / key / "driver.py").exists()
        phases = {d.phase for d in made.store.documents(key)}
        assert phases >= {"Measure", "Nominate", "Implement"}
        if strategy == "mantis":
            assert phases == {"Measure", "Analyze", "Nominate", "Triage", "Implement", "Summarize"}
        assert any(lesson.task == key and lesson.speedup for lesson in made.store.lessons())
        assert record.seconds["agent"] > 0 and record.seconds["build"] >= 0


def test_attempts_never_exceed_the_budget_and_only_new_programs_are_evaluated(tmp_path: Path):
    made = parts(tmp_path, budget=Budget(2, 2, 3))
    run_tasks(made, begun(made))
    evaluator: Any = made.evaluator
    attempts = made.store.attempts("gemm/square")
    assert sum(a.spent for a in attempts[1:]) <= 12
    assert len(evaluator.evaluated) == len(set(evaluator.evaluated)) == sum(a.spent for a in attempts)
    for repeated in (a for a in attempts if not a.spent):
        assert repeated.outcome.reason.startswith("the same program as attempt")


class SameAgain(ScriptedProposer):
    """Writes the imported program, and comments of its own."""

    def implement(self, view: Any, number: int, hypothesis: Any, earlier: Any, count: int) -> Any:
        return Reply([Candidate(f"// again {number}\nkernel 0   of\n gemm/square", "nothing")] * count)


@pytest.mark.parametrize("strategy", ["mantis", "mi", "mcts"])
def test_a_proposer_that_repeats_itself_costs_nothing_and_comes_to_an_end(tmp_path: Path, strategy: str):
    made = parts(tmp_path, strategy=strategy, proposer=SameAgain(), budget=Budget(3, 2, 2))
    run_tasks(made, begun(made))
    evaluator: Any = made.evaluator
    assert len(evaluator.evaluated) == 1
    statuses = {a.outcome.status for a in made.store.attempts("gemm/square")[1:]}
    assert statuses == {Status.REPEATED}
    assert made.store.tasks()[0].result["attempts"] == 0


def test_stop_rules_end_a_search(tmp_path: Path):
    made = parts(tmp_path, budget=Budget(window=5))
    run_tasks(made, begun(made))
    record = made.store.tasks()[0]
    assert record.stop == "no progress in 5 attempts"
    spent = [a for a in made.store.attempts("gemm/square") if a.spent]
    assert len(spent) < 41 and all((a.ms or 9) >= record.result["ms"]["mucc"] for a in spent[-5:])


def test_what_models_cost_is_kept_and_bounded(tmp_path: Path):
    made = parts(tmp_path, proposer=ScriptedProposer(calls=True, name="scripted"), budget=Budget(tokens=500))
    run_tasks(made, begun(made))
    calls = made.store.calls("gemm/square")
    assert made.store.tasks()[0].stop == f"{110 * len(calls)} tokens are spent"
    assert 500 <= 110 * len(calls) < 800


def test_what_mucc_cannot_compile_spends_no_attempt(tmp_path: Path):
    made = parts(tmp_path)
    opaque = [OpaqueOperation("aten.sort", 1.0, "not in the language")]
    imported = Imported("sort", opaque=opaque)
    broken = Imported("broken", error={"code": "MU7010", "message": "no Model"})
    for key, what in (("a/sort", imported), ("a/broken", broken)):
        old = task(key, Compiled.NONE)
        made.store.put_task(first_record(type(old)(key, "x.py", "", "tf32", "h200", "sm_90a", what)))
    ending = run_tasks(made, made.store.tasks())
    skipped, failed = made.store.tasks()
    assert skipped.state is TaskState.SKIPPED and "aten.sort: not in the language" in skipped.stop
    assert failed.state is TaskState.FAILED and "MU7010" in failed.stop and ending.failed
    evaluator: Any = made.evaluator
    assert not evaluator.evaluated and not made.store.attempts("a/sort")


class Failing(ScriptedProposer):
    """Cannot go on after some calls."""

    final = True

    def implement(self, view: Any, number: int, hypothesis: Any, earlier: Any, count: int) -> Any:
        if len(view.attempts) > 5:
            raise ProposerFailed("MU7236", "the key is wrong", final=self.final)
        return super().implement(view, number, hypothesis, earlier, count)


def test_a_run_goes_on_after_its_proposer_could_not(tmp_path: Path):
    reference = parts(tmp_path / "a") if (tmp_path / "a").mkdir() is None else None
    assert reference is not None
    run_tasks(reference, begun(reference))
    (tmp_path / "b").mkdir()
    made = parts(tmp_path / "b", proposer=Failing(name="model"))
    ending = run_tasks(made, begun(made))
    assert [d.code for d in ending.problems] == ["MU7236"]
    assert made.store.tasks()[0].state is TaskState.RUNNING
    made.store.close()
    again = parts(tmp_path / "b")
    run_tasks(again, again.store.tasks())
    assert shown(again.store) == shown(reference.store)


class AtALoss(ScriptedProposer):
    """Cannot read any program."""

    def nominate(self, view: Any, count: int, parent: Any) -> Any:
        raise ProposerFailed("MU7231", "the compiler does not take it", final=False)


def test_a_problem_that_the_offline_proposer_cannot_read_ends(tmp_path: Path):
    made = parts(tmp_path, proposer=AtALoss())
    assert not run_tasks(made, begun(made)).problems
    record = made.store.tasks()[0]
    assert record.state is TaskState.DONE and "MU7231" in record.stop and record.result["attempts"] == 0


class Broken(ScriptedEvaluator):
    """Says that the machine, or the problem, is at fault."""

    code = "MU7101"

    def compare(self, task: Any, candidate: Any) -> Any:
        raise DiagnosticError(Diagnostic(self.code, "no"))


def test_faults_of_the_machine_leave_tasks_open_and_those_of_problems_end_them(tmp_path: Path):
    (tmp_path / "a").mkdir()
    made = parts(tmp_path / "a", evaluator=Broken())
    ending = run_tasks(made, begun(made))
    assert [d.code for d in ending.problems] == ["MU7101"] and not ending.failed
    assert made.store.tasks()[0].state is TaskState.RUNNING
    (tmp_path / "b").mkdir()
    problem = Broken()
    problem.code = "MU7011"
    made = parts(tmp_path / "b", evaluator=problem)
    ending = run_tasks(made, begun(made))
    assert ending.failed and made.store.tasks()[0].state is TaskState.FAILED
    made.store.close()
    again = parts(tmp_path / "b")
    assert not run_tasks(again, again.store.tasks()).failed
    assert again.store.tasks()[0].state is TaskState.DONE


def test_other_steps_than_those_that_are_kept_are_refused(tmp_path: Path):
    class Fickle:
        name = "fickle"
        count = 1

        def steps(self, views: Any) -> Generator[Any, Any, None]:
            found: list[tuple[int, Hypothesis]] = yield Nominate(0, self.count)
            yield Pursue((found[0][0],), 1)
            yield Record("Summarize", "# nothing", {})
            raise DiagnosticError(Diagnostic("MU7011", "interrupted"))

    fickle = Fickle()
    made = parts(tmp_path, strategy=fickle)
    run_tasks(made, begun(made))
    made.store.put_task(TaskRecord(made.store.tasks()[0].task, TaskState.RUNNING))
    fickle.count = 2
    assert [d.code for d in run_tasks(made, made.store.tasks()).problems] == ["MU7208"]


# Going on after being killed

WORKER = """
import sys
sys.path.insert(0, sys.argv[3])
from pathlib import Path
import scripted
from scripted import ScriptedEvaluator, ScriptedProposer
from mucc.agent.core.strategy import Budget
from mucc.agent.engine.task_run import first_record
from mucc.agent.engine.task_threads import run_tasks
folder = Path(sys.argv[1])
made = scripted.parts(folder, strategy=sys.argv[2], budget=Budget(2, 2, 3),
                      proposer=ScriptedProposer(calls=True, slow=0.001, name="scripted"),
                      evaluator=ScriptedEvaluator(slow=0.002, log=str(folder / "log")))
there = {record.task.key for record in made.store.tasks()}
for key in ("gemm/square", "mlp/gpt2"):
    if key not in there:
        made.store.put_task(first_record(scripted.task(key)))
print("ready", flush=True)
run_tasks(made, made.store.tasks())
"""


def work(folder: Path, strategy: str) -> subprocess.Popen[bytes]:
    folder.mkdir(exist_ok=True)
    here = os.path.dirname(scripted.__file__)
    return subprocess.Popen([sys.executable, "-c", WORKER, folder, strategy, here], stdout=subprocess.PIPE)


@pytest.mark.parametrize("strategy", ["mcts", pytest.param("mantis", marks=pytest.mark.long)])
def test_a_run_that_is_killed_again_and_again_ends_like_one_that_is_not(tmp_path: Path, strategy: str):
    undisturbed = work(tmp_path / "whole", strategy)
    undisturbed.communicate()
    assert undisturbed.returncode == 0
    rng = random.Random(strategy)
    kills = 0
    while True:
        process = work(tmp_path / "killed", strategy)
        assert process.stdout is not None
        process.stdout.readline()
        try:
            # Ever longer, so that it ends on a busy machine too.
            process.wait(0.01 * (kills + 1) if kills < 3 else rng.uniform(0.0, 0.4) * 1.05**kills)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
        finally:
            process.stdout.close()
        if process.returncode == 0:
            break
        assert process.returncode == -9 and kills < 60
    assert kills >= 2
    with Store(str(tmp_path / "whole/run.db")) as whole, Store(str(tmp_path / "killed/run.db")) as killed:
        for key, kinds in shown(whole).items():
            for kind, expected in kinds.items():
                assert shown(killed)[key][kind] == expected, kind
        done = {a.candidate.program for key in ("gemm/square", "mlp/gpt2") for a in whole.attempts(key)}
    log = (tmp_path / "killed/log").read_text().splitlines()
    assert len(log) <= len(done) + 2 * 12 * kills  # only what was under way is evaluated again
    # SIGKILL may leave a file behind that was being written under another name.
    files = [
        sorted(p.name for p in (tmp_path / name / "gemm/square").iterdir() if p.suffix != ".tmp")
        for name in ("whole", "killed")
    ]
    assert files[0] == files[1]


class Held(ScriptedEvaluator):
    """Waits in its first evaluation until it is closed, and then gives nonsense."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.released = threading.Event(), threading.Event()

    def evaluate(self, task: Any, candidates: Any, best_ms: Any, watch: Any = None) -> Any:
        self.entered.set()
        self.released.wait(300)
        yield 0, Outcome(Status.CRASHED, "ended by the agent itself")

    def close(self) -> None:
        self.released.set()


def test_an_interrupted_run_stores_nothing_of_what_it_broke_off(tmp_path: Path, monkeypatch: Any):
    held = Held()
    made = parts(tmp_path, evaluator=held)
    records = begun(made)

    def interrupted(done: Any) -> Any:
        held.entered.wait(300)
        raise KeyboardInterrupt

    monkeypatch.setattr(task_threads, "_next", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_tasks(made, records)
    assert not made.store.attempts("gemm/square") and len(made.store.pending("gemm/square")) == 1
    assert made.store.tasks()[0].state is TaskState.RUNNING
    monkeypatch.undo()
    again = parts(tmp_path)
    run_tasks(again, again.store.tasks())
    assert again.store.tasks()[0].state is TaskState.DONE


# Turns


def test_a_shared_budget_goes_where_the_gap_is(tmp_path: Path):
    made = parts(tmp_path, budget=Budget(5, 2, 4))
    far, near = task("a/far", bound_ms=0.01), task("a/near", bound_ms=0.6)
    for one in (near, far):
        made.store.put_task(first_record(one))
    turns = Shared(1, 50, ["a/near", "a/far"])
    made = parts(tmp_path, turns=turns)
    run_tasks(made, made.store.tasks())
    spent = {
        r.task.key: sum(a.spent for a in made.store.attempts(r.task.key)[1:]) for r in made.store.tasks()
    }
    assert sum(spent.values()) <= 50
    assert spent["a/far"] > spent["a/near"] > 0


def test_a_shared_budget_that_is_spent_ends_all_searches(tmp_path: Path):
    keys = ["a/one", "a/two", "a/three"]
    made = parts(tmp_path, turns=Shared(2, 13, keys))
    run_tasks(made, begun(made, *keys))
    spent = [a for key in keys for a in made.store.attempts(key)[1:] if a.spent]
    assert len(spent) == 13
    assert {r.stop for r in made.store.tasks()} == {"the shared budget of attempts is spent"}
    named = sum(s.kind == "Nominate" for key in keys for s in made.store.steps(key))
    assert named <= 6


def test_what_is_spent_of_a_shared_budget_is_known_after_a_restart(tmp_path: Path):
    made = parts(tmp_path)
    records = begun(made, "a/one", "a/two")
    run_tasks(made, records)
    made_attempts = sum(a.spent for key in ("a/one", "a/two") for a in made.store.attempts(key)) - 2
    turns = turns_of(made.store, Options(total=made_attempts + 3, jobs=2), records)
    assert turns.enter("a/one", 1.0, 8) == 3
    turns.leave("a/one", 2)
    assert turns.enter("a/two", 1.0, 8) == 2


def test_the_gain_that_is_expected():
    assert expected_gain(1.0, 1.0, 0) == 0.0 == expected_gain(0.9, 1.0, 5)
    assert expected_gain(8.0, 1.0, 0) > expected_gain(2.0, 1.0, 0) > expected_gain(8.0, 1.0, 3) > 0
    assert expected_gain(None, 1.0, 0) == expected_gain(1.0, None, 0) > 0


@pytest.mark.parametrize("turns", [Seats(1), Shared(1, 9, ["a"])])
def test_waiting_for_a_turn_ends_when_the_run_does(turns: Any):
    turns.begin("a")
    turns.enter("a", 2.0, 1)
    told: queue.SimpleQueue[str] = queue.SimpleQueue()

    def other() -> None:
        try:
            turns.begin("b")
            turns.enter("b", 1.0, 1)
        except Interrupted:
            told.put("interrupted")

    thread = threading.Thread(target=other)
    thread.start()
    turns.stop()
    assert told.get(timeout=300) == "interrupted"
    thread.join()


# Options, locks, clocks


def test_options_that_change_a_search_are_refused():
    stored = Options(strategy="mi", budget=Budget(window=4))
    assert resumed(stored, {"jobs": 8, "budget": {"tokens": 9}, "strategy": "mi"}).budget.tokens == 9
    for asked in ({"strategy": "mcts"}, {"budget": {"window": 5}}, {"seed": 1}, {"settings": {"model": "m"}}):
        with pytest.raises(DiagnosticError) as caught:
            resumed(stored, asked)
        assert caught.value.diagnostics[0].code == "MU7206"


def test_one_process_at_a_time(tmp_path: Path):
    with locked(str(tmp_path / "run")):
        with pytest.raises(DiagnosticError) as caught, locked(str(tmp_path / "run")):
            pass
        assert caught.value.diagnostics[0].code == "MU7204"
    with locked(str(tmp_path / "run")):
        pass


def test_waiting_is_not_the_agents_own_time(monkeypatch: pytest.MonkeyPatch):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    clock = Clock({"agent": 1.0})
    now = 2.0
    with clock.waiting("wait") as stages:
        now = 12.0
        stages.update(build=4.0, run=1.0)
    with clock.waiting("wait") as stages:
        now = 14.0
        stages.update(build=6.0, audit=2.0)
    assert clock.seconds() == {"agent": 3.0, "build": 5.5, "gpu": 1.0, "wait": 5.0, "audit": 0.5}
    assert clock.total() == 15.0


def test_a_task_that_has_ended_is_left_alone(tmp_path: Path):
    made = parts(tmp_path)
    run_tasks(made, begun(made))
    before = shown(made.store)
    evaluator: Any = made.evaluator
    count = len(evaluator.evaluated)
    run_tasks(made, made.store.tasks())
    assert shown(made.store) == before and len(evaluator.evaluated) == count


def test_going_on_does_not_ask_again_for_what_is_known(tmp_path: Path):
    made = parts(tmp_path)
    run_tasks(made, begun(made))
    before = shown(made.store)
    record = made.store.tasks()[0]
    evaluator = ScriptedEvaluator()
    again = parts(tmp_path, evaluator=evaluator, proposer=Failing(most=0))
    TaskRun(again, TaskRecord(record.task, TaskState.RUNNING, seconds=record.seconds)).run()
    assert not evaluator.evaluated and shown(again.store) == before
