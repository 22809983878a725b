"""The run store of the agent: everything comes back as it was put in, and damage is told."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from agentruns import typical
from hypothesis import given
from hypothesis import strategies as st

from mucc.agent.core.attempts import Attempt, Candidate, Outcome, Status
from mucc.agent.core.hypotheses import Hypothesis, roi
from mucc.agent.core.proposer import Call, Lesson
from mucc.agent.core.tasks import Compiled, Imported, Task
from mucc.agent.report.reading import read_run
from mucc.agent.store import Document, RunInfo, StepRecord, Store, TaskRecord, TaskState
from mucc.diagnostics.core import DiagnosticError
from mucc.files.json_data import from_json, to_json

TASK = Task(
    "gemm/square", "square.py", "…", "tf32", "h200", "sm_90a", Imported("square", compiled=Compiled.WHOLE)
)
CANDIDATE = Candidate("kernel k[M](x: f32[M]) -> f32[M] { return x }", "nothing", parent=0, hypothesis=1)
OUTCOME = Outcome(Status.GOOD, ms=0.25, audited=True, label="No Issues", seconds={"build": 1.5})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "run.db"), create=True)


@given(st.sampled_from(Status), st.none() | st.floats(0, 1e6), st.text(), st.booleans())
def test_outcomes_go_through_json(status: Status, ms: float | None, reason: str, audited: bool):
    outcome = Outcome(status, reason, ms, audited=audited, diagnostics=[{"code": "MU0001", "message": "no"}])
    assert from_json(Outcome, to_json(outcome)) == outcome
    assert outcome.counts == (status is Status.GOOD and audited and ms is not None)


def test_unknown_fields_are_left_out_and_wrong_ones_refused():
    assert from_json(Hypothesis, {"title": "t", "rationale": "r", "new": 1}) == Hypothesis("t", "r")
    with pytest.raises(ValueError):
        from_json(Outcome, {"status": "splendid"})
    with pytest.raises(ValueError):
        from_json(Outcome, [])


def test_everything_comes_back(store: Store):
    info = RunInfo("mucc-agent optimize", "2026-01-01", "0.1", {"strategy": "mantis"})
    store.start(info)
    store.put_task(TaskRecord(TASK))
    store.put_task(TaskRecord(TASK, TaskState.DONE, "near the bound", {"ms": {"mucc": 0.25}}))
    step = StepRecord(0, "nominate", {"count": 2}, [0, 1], 1.0, 0.5)
    store.finish_step(TASK.key, step)
    ideas = [Hypothesis("larger tile", "…", "tile"), Hypothesis("stream-K", "…", "scheduler")]
    assert store.add_hypotheses(TASK.key, 0, ideas) == [0, 1]
    assert store.add_attempts(TASK.key, 1, [CANDIDATE, CANDIDATE]) == [0, 1]
    store.finish_attempt(TASK.key, 1, OUTCOME)
    store.add_calls(TASK.key, 0, [Call("openai", "m", "nominate", prompt_tokens=3)])
    store.add_document(TASK.key, 0, Document("Measure", "# Measure", {"ms": 1.0}))
    store.add_lessons([Lesson(TASK.key, "tile", "larger tile", 1.2)])
    store.close()
    with Store(store.path) as again:
        assert again.info() == info
        assert again.tasks() == [TaskRecord(TASK, TaskState.DONE, "near the bound", {"ms": {"mucc": 0.25}})]
        assert again.steps(TASK.key) == [step]
        assert again.hypotheses(TASK.key) == [(0, ideas[0]), (1, ideas[1])]
        assert again.hypotheses(TASK.key, 7) == []
        assert again.attempts(TASK.key) == [Attempt(1, CANDIDATE, OUTCOME)]
        assert again.pending(TASK.key) == [(0, 1, CANDIDATE)]
        assert again.batches_of_attempts(TASK.key) == {0: 0, 1: 0}
        assert [step for step, _ in again.steps_of_calls(TASK.key)] == [0]
        assert [c.prompt_tokens for c in again.calls(TASK.key)] == [3]
        assert [d.phase for d in again.documents(TASK.key)] == ["Measure"]
        assert [lesson.speedup for lesson in again.lessons()] == [1.2]


def test_what_is_no_run_is_told(tmp_path: Path, store: Store):
    def code(path: Path) -> str:
        with pytest.raises(DiagnosticError) as caught:
            Store(str(path))
        return caught.value.diagnostics[0].code

    assert code(tmp_path / "none.db") == "MU7203"
    (tmp_path / "text.db").write_text("no database" * 100)
    assert code(tmp_path / "text.db") == "MU7201"
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (a)").connection.close()
    assert code(tmp_path / "other.db") == "MU7201"
    store.close()
    with sqlite3.connect(store.path) as db:
        db.execute("PRAGMA user_version = 99")
    assert code(Path(store.path)) == "MU7202"


@pytest.mark.parametrize(
    ("table", "column", "text"),
    [
        ("attempt", "outcome", '{"status": "good", "ms": "fast"}'),
        ("attempt", "candidate", '{"text": "kernel"}'),
        ("task", "data", '{"task": 1, "state": "done"}'),
        ("task", "data", "{"),
        ("run", "data", '{"command": "", "started": "", "mucc": "", "options": 3}'),
        ("lesson", "data", b"\xff"),
    ],
)
def test_damaged_rows_are_told(tmp_path: Path, table: str, column: str, text: str | bytes):
    folder = typical(tmp_path / "run")
    with sqlite3.connect(f"{folder}/run.db") as db:
        db.execute(f"UPDATE {table} SET {column} = CAST(? AS TEXT)", (text,))
    with pytest.raises(DiagnosticError, match="run of mucc-agent, or is damaged") as caught:
        read_run(folder)
    assert caught.value.diagnostics[0].code == "MU7201"


def test_far_from_the_bound_boldness_pays():
    bold = Hypothesis("bold", "", speedup=3.0, performance_risk=3.0)
    safe = Hypothesis("safe", "", speedup=1.2)
    assert roi(bold, 500.0) > roi(safe, 500.0)
    assert roi(bold, 1.2) < roi(safe, 1.2)
    assert roi(safe, 5.0) == pytest.approx(1.2)


def test_steps_that_are_done_over_leave_no_second_trace(store: Store):
    store.put_task(TaskRecord(TASK))
    for n in range(2):
        store.add_document(TASK.key, 3, Document("Triage", f"# {n}", {}))
        store.add_document(TASK.key, 3, Document("Summarize", f"# {n}", {}))
        store.add_lessons(
            [Lesson(TASK.key, "tile", "larger", 1.0 + n), Lesson(TASK.key, "split", "two", None)]
        )
        store.put_note(TASK.key, 3, {"round": n})
        assert [lesson.speedup for lesson in store.lessons()] == [1.0 + n, None]
    assert [d.markdown for d in store.documents(TASK.key)] == ["# 1", "# 1"]
    assert store.note(dict[str, int], TASK.key, 3) == {"round": 1} and not store.has_note(TASK.key, 4)


def test_attempts_come_with_their_calls_and_the_note_of_the_step(store: Store):
    store.put_task(TaskRecord(TASK))
    call = Call("openai", "m", "implement")
    assert store.add_attempts(TASK.key, 2, [CANDIDATE], [call], {"asked": [1]}) == [0]
    assert store.calls(TASK.key) == [call] and store.note(dict[str, list[int]], TASK.key, 2) == {"asked": [1]}
    assert store.add_hypotheses(TASK.key, 2, [Hypothesis("t", "r")], [call]) == [0]
    assert len(store.calls(TASK.key)) == 2


def test_repeated_programs_take_nothing_from_a_budget():
    assert Attempt(1, CANDIDATE, OUTCOME).spent
    assert not Attempt(2, CANDIDATE, Outcome(Status.REPEATED)).spent
