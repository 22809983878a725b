"""The store of a run in an SQLite database."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from mucc.agent.core.attempts import Attempt, Candidate, Outcome
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.proposer import Call, Lesson
from mucc.agent.store.records import Document, RunInfo, StepRecord, TaskRecord
from mucc.api.diagnostics import Diagnostic, DiagnosticError
from mucc.api.json_types import from_json, to_json

T = TypeVar("T")

VERSION = 1
"""The version of the tables, `user_version` of the database."""

PATIENCE = 10.0
"""Seconds to wait for another process that writes."""

SCHEMA = """
CREATE TABLE run (id INTEGER PRIMARY KEY CHECK (id = 1), data TEXT NOT NULL);
CREATE TABLE task (key TEXT PRIMARY KEY, place INTEGER NOT NULL, data TEXT NOT NULL);
CREATE TABLE step (
    task TEXT NOT NULL REFERENCES task (key), number INTEGER NOT NULL, data TEXT NOT NULL,
    PRIMARY KEY (task, number)
);
CREATE TABLE hypothesis (
    task TEXT NOT NULL REFERENCES task (key), number INTEGER NOT NULL, step INTEGER NOT NULL, data TEXT NOT
    NULL, PRIMARY KEY (task, number)
);
CREATE TABLE attempt (
    task TEXT NOT NULL REFERENCES task (key), number INTEGER NOT NULL, step INTEGER NOT NULL,
    batch INTEGER NOT NULL, candidate TEXT NOT NULL, outcome TEXT, time REAL NOT NULL,
    PRIMARY KEY (task, number)
);
CREATE TABLE call (
    id INTEGER PRIMARY KEY, task TEXT NOT NULL, step INTEGER NOT NULL, data TEXT NOT NULL, time REAL NOT NULL
);
CREATE TABLE document (id INTEGER PRIMARY KEY, task TEXT NOT NULL, step INTEGER NOT NULL, data TEXT NOT NULL);
CREATE TABLE note (
    task TEXT NOT NULL REFERENCES task (key), step INTEGER NOT NULL, data TEXT NOT NULL,
    PRIMARY KEY (task, step)
);
CREATE TABLE lesson (id INTEGER PRIMARY KEY, task TEXT NOT NULL, data TEXT NOT NULL);
"""


class Store:
    """The store of one run. Methods may be called from any thread; each write is on the disk when it returns.

    Raises DiagnosticError: MU7201 where the file is no run or is damaged, MU7202 where a newer mucc made it,
    MU7203 where it cannot be opened or written, MU7204 where another process runs it.
    """

    def __init__(self, path: str, *, create: bool = False, patience: float = PATIENCE):
        self.path = path
        self._lock = threading.RLock()
        self._attempts: dict[tuple[str, int], Attempt] = {}
        self._hypotheses: dict[tuple[str, int], Hypothesis] = {}
        self._lessons: tuple[tuple[int, ...], list[Lesson]] = (), []
        if not create and not os.path.exists(path):
            raise _error("MU7203", f"there is no run at {path}")
        with self._guarded():
            self._db = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA foreign_keys = ON")
            version: int = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0 and create:
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
                version = VERSION
        if version != VERSION:
            self._db.close()
            if version > VERSION:
                raise _error("MU7202", f"{path} was made by a newer mucc")
            raise _error("MU7201", f"{path} is no run of mucc-agent")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._db.close()

    # The run and its tasks

    def start(self, info: RunInfo) -> None:
        """Store the request of the run; once."""
        with self._transaction() as db:
            db.execute("INSERT INTO run VALUES (1, ?)", (_dump(info),))

    def info(self) -> RunInfo | None:
        """Return the request of the run; None where it has not started."""
        rows = self._rows("SELECT data FROM run")
        return self._read(RunInfo, rows[0][0]) if rows else None

    def put_task(self, record: TaskRecord) -> None:
        """Add or replace the record of a task."""
        key, data = record.task.key, _dump(record)
        with self._transaction() as db:
            place = db.execute("SELECT count(*) FROM task").fetchone()[0]
            db.execute(
                "INSERT INTO task VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET data = excluded.data",
                (key, place, data),
            )

    def tasks(self) -> list[TaskRecord]:
        """All tasks in the order in which they were added."""
        return self._many(TaskRecord, "SELECT data FROM task ORDER BY place")

    def task(self, key: str) -> TaskRecord | None:
        """Return the record of a task, None where there is none."""
        found = self._many(TaskRecord, "SELECT data FROM task WHERE key = ?", key)
        return found[0] if found else None

    # Steps, and what is made in them. All of one step is numbered by it, so that a step that was not finished
    # can be taken up where it was.

    def finish_step(self, key: str, record: StepRecord) -> None:
        """Store a finished step."""
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO step VALUES (?, ?, ?)", (key, record.index, _dump(record)))

    def steps(self, key: str) -> list[StepRecord]:
        """Return the finished steps of a task in order."""
        return self._many(StepRecord, "SELECT data FROM step WHERE task = ? ORDER BY number", key)

    def add_hypotheses(
        self, key: str, step: int, found: Sequence[Hypothesis], calls: Sequence[Call] = ()
    ) -> list[int]:
        """Store hypotheses with their numbers and the calls of models for them, in one transaction."""
        with self._transaction() as db:
            query = "SELECT coalesce(max(number) + 1, 0) FROM hypothesis WHERE task = ?"
            first: int = db.execute(query, (key,)).fetchone()[0]
            for number, hypothesis in enumerate(found, first):
                db.execute(
                    "INSERT INTO hypothesis VALUES (?, ?, ?, ?)", (key, number, step, _dump(hypothesis))
                )
            _put_calls(db, key, step, calls)
        return list(range(first, first + len(found)))

    def hypotheses(
        self, key: str, step: int | None = None, *, before: int | None = None
    ) -> list[tuple[int, Hypothesis]]:
        """Hypotheses of a task with their numbers, in order; of one step only, or of those before one."""
        query = (
            "SELECT number FROM hypothesis WHERE task = ? AND ? IN (step, -1) AND step < ? ORDER BY number"
        )
        rows = self._rows(query, key, -1 if step is None else step, 1 << 60 if before is None else before)
        return [(number, self._hypothesis(key, number)) for (number,) in rows]

    def _hypothesis(self, key: str, number: int) -> Hypothesis:
        """One hypothesis, from a cache: it never changes."""
        if (found := self._hypotheses.get((key, number))) is None:
            query = "SELECT data FROM hypothesis WHERE task = ? AND number = ?"
            found = self._read(Hypothesis, self._rows(query, key, number)[0][0])
            self._hypotheses[key, number] = found
        return found

    def add_attempts(
        self,
        key: str,
        step: int,
        candidates: Sequence[Candidate],
        calls: Sequence[Call] = (),
        note: object = None,
        together: int | None = None,
    ) -> list[int]:
        """Store candidates for evaluation with their numbers, all or none; with the calls that they
        took, and a note on how far the step is. They are evaluated together with those of attempt
        `together` and after."""
        with self._transaction() as db:
            query = "SELECT coalesce(max(number) + 1, 0) FROM attempt WHERE task = ?"
            first: int = db.execute(query, (key,)).fetchone()[0]
            for number, candidate in enumerate(candidates, first):
                row = (key, number, step, together or first, _dump(candidate), None, time.time())
                db.execute("INSERT INTO attempt VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            _put_calls(db, key, step, calls)
            if note is not None:
                _put_note(db, key, step, note)
        return list(range(first, first + len(candidates)))

    def finish_attempt(self, key: str, number: int, outcome: Outcome) -> None:
        """Store the outcome of an attempt."""
        self._attempts.pop((key, number), None)
        with self._transaction() as db:
            query = "UPDATE attempt SET outcome = ?, time = ? WHERE task = ? AND number = ?"
            db.execute(query, (_dump(outcome), time.time(), key, number))

    def attempts(self, key: str) -> list[Attempt]:
        """Return the finished attempts of a task in order."""
        query = "SELECT number FROM attempt WHERE task = ? AND outcome IS NOT NULL ORDER BY number"
        return [self._attempt(key, number) for (number,) in self._rows(query, key)]

    def _attempt(self, key: str, number: int) -> Attempt:
        """One finished attempt, from a cache until it gets another outcome."""
        if (found := self._attempts.get((key, number))) is None:
            query = "SELECT candidate, outcome FROM attempt WHERE task = ? AND number = ?"
            candidate, outcome = self._rows(query, key, number)[0]
            found = Attempt(number, self._read(Candidate, candidate), self._read(Outcome, outcome))
            self._attempts[key, number] = found
        return found

    def pending(self, key: str) -> list[tuple[int, int, Candidate]]:
        """Return attempts without an outcome: number, step, candidate."""
        query = (
            "SELECT number, step, candidate FROM attempt WHERE task = ? AND outcome IS NULL ORDER BY number"
        )
        return [(n, s, self._read(Candidate, c)) for n, s, c in self._rows(query, key)]

    def steps_of_attempts(self, key: str) -> dict[int, int]:
        """Return the step in which each attempt was made."""
        return dict(self._rows("SELECT number, step FROM attempt WHERE task = ? ORDER BY number", key))

    def batches_of_attempts(self, key: str) -> dict[int, int]:
        """Return the first attempt of the batch that each attempt was evaluated in."""
        return dict(self._rows("SELECT number, batch FROM attempt WHERE task = ? ORDER BY number", key))

    def times_of_attempts(self, key: str) -> dict[int, float]:
        """Return the time at which each attempt was finished, or else begun, in seconds since 1970."""
        return dict(self._rows("SELECT number, time FROM attempt WHERE task = ? ORDER BY number", key))

    def put_note(self, key: str, step: int, note: object) -> None:
        """Store a note on the progress of an unfinished step; replaces an earlier one."""
        with self._transaction() as db:
            _put_note(db, key, step, note)

    def has_note(self, key: str, step: int) -> bool:
        """Whether a step has a note: it has begun, and is not finished."""
        return bool(self._rows("SELECT 1 FROM note WHERE task = ? AND step = ?", key, step))

    def note(self, kind: type[T], key: str, step: int) -> T | None:
        """Return the note of a step, which is of the given type."""
        rows = self._rows("SELECT data FROM note WHERE task = ? AND step = ?", key, step)
        return self._read(kind, rows[0][0]) if rows else None

    def add_calls(self, key: str, step: int, calls: Sequence[Call]) -> None:
        """Store calls of models."""
        with self._transaction() as db:
            _put_calls(db, key, step, calls)

    def calls(self, key: str) -> list[Call]:
        """All calls of a task in order."""
        return self._many(Call, "SELECT data FROM call WHERE task = ? ORDER BY id", key)

    def steps_of_calls(self, key: str) -> list[tuple[int, float]]:
        """Return the step of each call of `calls`, and the time at which it was stored, in seconds since
        1970.
        """
        rows = self._rows("SELECT step, time FROM call WHERE task = ? ORDER BY id", key)
        return [(step, when) for step, when in rows]

    def add_document(self, key: str, step: int, document: Document) -> None:
        """Store the document of a phase. A repeated step replaces its document of the same phase."""
        with self._transaction() as db:
            same = "task = ? AND step = ? AND json_extract(data, '$.phase') = ?"
            db.execute(f"DELETE FROM document WHERE {same}", (key, step, document.phase))
            db.execute(
                "INSERT INTO document (task, step, data) VALUES (?, ?, ?)", (key, step, _dump(document))
            )

    def documents(self, key: str) -> list[Document]:
        """Return the documents of a task, in order."""
        return self._many(Document, "SELECT data FROM document WHERE task = ? ORDER BY step, id", key)

    def add_lessons(self, lessons: Sequence[Lesson]) -> None:
        """Store lessons of tasks; replaces earlier ones of the same tasks."""
        with self._transaction() as db:
            self._lessons = (), []
            for task in {lesson.task for lesson in lessons}:
                db.execute("DELETE FROM lesson WHERE task = ?", (task,))
            for lesson in lessons:
                db.execute("INSERT INTO lesson (task, data) VALUES (?, ?)", (lesson.task, _dump(lesson)))

    def lessons(self) -> list[Lesson]:
        """All lessons in the order in which they were stored."""
        state = tuple(self._rows("SELECT count(*), max(id) FROM lesson")[0])
        with self._lock:
            if self._lessons[0] != state:
                self._lessons = state, self._many(Lesson, "SELECT data FROM lesson ORDER BY id")
            return list(self._lessons[1])

    # SQLite

    def _many(self, kind: type[T], query: str, *values: Any) -> list[T]:
        return [self._read(kind, row[0]) for row in self._rows(query, *values)]

    def _read(self, kind: type[T], text: str) -> T:
        """Decode the value of a row. Raises MU7201 where the text does not fit the type."""
        try:
            return from_json(kind, json.loads(text))
        except (ValueError, TypeError, RecursionError) as error:
            raise self._damaged(error) from None

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._lock, self._guarded():
            return self._db.execute(query, values).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        with self._lock, self._guarded():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    @contextlib.contextmanager
    def _guarded(self) -> Generator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise _error("MU7204", f"another process keeps {self.path} locked") from None
            if "decode" in str(error):
                raise self._damaged(error) from None
            raise _error("MU7203", f"{self.path}: {error}") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> DiagnosticError:
        return _error("MU7201", f"{self.path} is no run of mucc-agent, or is damaged: {error}")


def _put_calls(db: sqlite3.Connection, key: str, step: int, calls: Sequence[Call]) -> None:
    for call in calls:
        row = (key, step, _dump(call), time.time())
        db.execute("INSERT INTO call (task, step, data, time) VALUES (?, ?, ?, ?)", row)


def _put_note(db: sqlite3.Connection, key: str, step: int, note: object) -> None:
    db.execute("INSERT OR REPLACE INTO note VALUES (?, ?, ?)", (key, step, _dump(note)))


def _dump(value: Any) -> str:
    return json.dumps(to_json(value), ensure_ascii=False)


def _error(code: str, message: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(code, message))
