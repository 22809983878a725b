"""Store measurements in an SQLite database; each is committed at once."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Generator, Iterable, Sequence

from mucc.database.home import database_path
from mucc.database.records import Record, Stage, Status
from mucc.diagnostics.core import Diagnostic, DiagnosticError

VERSION = 1
"""Of the tables; kept in the database as `user_version`."""

PATIENCE = 10.0
"""Seconds to wait for another process that writes."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS run (
    id INTEGER PRIMARY KEY,
    target TEXT NOT NULL, card TEXT NOT NULL, kernel TEXT NOT NULL, dims TEXT NOT NULL, choice TEXT NOT NULL,
    support TEXT NOT NULL, name TEXT NOT NULL, mucc TEXT NOT NULL, date TEXT NOT NULL,
    status TEXT NOT NULL, reason TEXT NOT NULL, time_us REAL, runs INTEGER NOT NULL, final INTEGER NOT NULL,
    error REAL,
    UNIQUE (target, card, kernel, dims, choice, support)
);
CREATE TABLE IF NOT EXISTS stage (
    run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    name TEXT NOT NULL, problem TEXT NOT NULL, body TEXT NOT NULL, settings TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS stage_problem ON stage (problem);
CREATE INDEX IF NOT EXISTS stage_run ON stage (run);
"""

_COLUMNS = (
    "target, card, kernel, dims, choice, support, name, mucc, date, "
    "status, reason, time_us, runs, final, error"
)


class Store:
    """A database of measurements, made when it is first written to.

    Methods raise DiagnosticError: MU5305 where the file is damaged or no database, MU5306 where a newer mucc
    made it, MU5307 where another process keeps it locked, MU5308 where it cannot be opened or written.
    """

    def __init__(self, path: str | None = None, *, patience: float = PATIENCE):
        self.path = path or database_path()
        self.patience = patience
        self._connection: sqlite3.Connection | None = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; it is opened again where need be."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    # Writing

    def add(self, records: Iterable[Record]) -> None:
        """Store measurements, all or none; one of the same key is replaced."""
        with self._transaction() as db:
            for record in records:
                _put(db, record)

    def merge(self, records: Iterable[Record]) -> int:
        """Store measurements of other machines: of one that is known already, the later counts."""
        changed = 0
        with self._transaction() as db:
            for record in records:
                where = " AND ".join(f"{name} = ?" for name in _KEY)
                known = db.execute(f"SELECT date FROM run WHERE {where}", record.key).fetchone()
                if known is None or known[0] < record.date:
                    _put(db, record)
                    changed += 1
        return changed

    def forget(self, *, target: str | None = None, card: str | None = None, name: str | None = None) -> int:
        """Remove the measurements that match, all without conditions; how many there were."""
        if not self.exists:
            return 0
        conditions = {"target": target, "card": card, "name": name}
        given = {column: value for column, value in conditions.items() if value is not None}
        where = " AND ".join(f"{column} = ?" for column in given) or "1"
        with self._transaction() as db:
            return db.execute(f"DELETE FROM run WHERE {where}", tuple(given.values())).rowcount

    # Reading

    @property
    def exists(self) -> bool:
        return os.path.exists(self.path)

    def all(self) -> list[Record]:
        """Every measurement, the oldest first."""
        return self._select("1", ())

    def of_kernel(self, target: str, kernel: str) -> list[Record]:
        """Return the records of a kernel, on all cards and for all sizes."""
        return self._select("target = ? AND kernel = ?", (target, kernel))

    def of_problem(self, target: str, problem: str) -> list[Record]:
        """Good measurements in which some stage poses the problem."""
        where = "target = ? AND status = ? AND id IN (SELECT run FROM stage WHERE problem = ?)"
        return self._select(where, (target, Status.GOOD, problem))

    def _select(self, where: str, values: tuple[str, ...]) -> list[Record]:
        if not self.exists:
            return []
        with self._guarded() as db:
            rows = db.execute(
                f"SELECT id, {_COLUMNS} FROM run WHERE {where} ORDER BY date, id", values
            ).fetchall()
            return [_record(row, _stages(db, row[0])) for row in rows]

    # The file

    @contextlib.contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        with self._guarded() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _guarded(self) -> Generator[sqlite3.Connection]:
        try:
            if self._connection is None:
                self._connection = self._open()
            yield self._connection
        except (sqlite3.Error, OSError, ValueError) as error:
            self.close()
            raise self._trouble(error) from error

    def _open(self) -> sqlite3.Connection:
        os.makedirs(os.path.dirname(os.path.abspath(self.path)), exist_ok=True)
        db = sqlite3.connect(self.path, timeout=self.patience, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA foreign_keys = ON")
            version = int(db.execute("PRAGMA user_version").fetchone()[0])
            if version > VERSION:
                raise _Newer(version)
            if version < VERSION:
                self._create(db)
            # A write is on its way to the disk before it counts as done.
            db.execute("PRAGMA synchronous = FULL")
        except BaseException:
            db.close()
            raise
        return db

    def _create(self, db: sqlite3.Connection) -> None:
        """Make the tables, which another process may do at the same moment."""
        deadline = time.monotonic() + self.patience
        while True:
            try:
                # SQLite does not wait for others when it changes this mode: it fails at once.
                db.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        db.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")

    def _trouble(self, error: Exception) -> DiagnosticError:
        remedy = "set MUCC_TUNING_DB to another file"
        code, message, helps = (
            "MU5308",
            f"the tuning database '{self.path}' cannot be used: {error}",
            (remedy,),
        )
        if isinstance(error, _Newer):
            code = "MU5306"
            message = f"a newer mucc made the tuning database '{self.path}' ({error})"
            helps = ("update mucc", remedy)
        elif isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            code = "MU5307"
            message = f"the tuning database '{self.path}' is locked by another process"
            helps = ("wait for it to end", remedy)
        elif isinstance(error, ValueError) or (
            isinstance(error, sqlite3.DatabaseError)
            and ("malformed" in str(error) or "not a database" in str(error) or "no such" in str(error))
        ):
            code = "MU5305"
            message = f"the tuning database '{self.path}' is damaged, or is no such database: {error}"
            helps = (f"move it away: mv {self.path} {self.path}.damaged", remedy)
        return DiagnosticError(Diagnostic(code, message, helps=helps))


_KEY = ("target", "card", "kernel", "dims", "choice", "support")


class _Newer(ValueError):
    def __init__(self, version: int):
        super().__init__(f"its schema is {version}, this mucc knows {VERSION}")


def _put(db: sqlite3.Connection, record: Record) -> None:
    run = record.run
    values = (
        *record.key,
        record.name,
        record.mucc,
        record.date,
        run.status.value,
        run.reason,
        run.time_us,
        run.runs,
        int(run.final),
        run.error,
    )
    db.execute(f"DELETE FROM run WHERE {' AND '.join(f'{name} = ?' for name in _KEY)}", record.key)
    marks = ", ".join("?" * len(values))
    row = db.execute(f"INSERT INTO run ({_COLUMNS}) VALUES ({marks})", values).lastrowid
    db.executemany(
        "INSERT INTO stage (run, name, problem, body, settings) VALUES (?, ?, ?, ?, ?)",
        [(row, s.name, s.problem, s.body, json.dumps(dict(s.settings))) for s in record.stages],
    )


def _stages(db: sqlite3.Connection, run: int) -> tuple[Stage, ...]:
    rows: Sequence[tuple[str, str, str, str]] = db.execute(
        "SELECT name, problem, body, settings FROM stage WHERE run = ? ORDER BY rowid", (run,)
    ).fetchall()
    return tuple(Stage(name, problem, body, json.loads(settings)) for name, problem, body, settings in rows)


def _record(row: tuple[object, ...], stages: tuple[Stage, ...]) -> Record:
    (
        _,
        target,
        card,
        kernel,
        dims,
        _,
        support,
        name,
        mucc,
        date,
        status,
        reason,
        time_us,
        runs,
        final,
        error,
    ) = row
    run = {"status": status, "reason": reason, "time_us": time_us, "runs": runs, "final": bool(final)}
    return Record.from_json(
        {
            "target": target,
            "card": card,
            "kernel": kernel,
            "name": name,
            "dims": json.loads(str(dims)),
            "stages": [s._asdict() for s in stages],
            "run": {**run, "error": error},
            "support": support,
            "mucc": mucc,
            "date": date,
        }
    )
