"""Show the progress of a run: live on a terminal, as lines in a log, or not at all."""

from __future__ import annotations

import atexit
import contextlib
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO

from mucc.agent.core.attempts import Attempt, Candidate
from mucc.agent.core.progress import Progress
from mucc.agent.core.proposer import Call
from mucc.agent.core.tasks import BASELINES, Task
from mucc.agent.report.board import Board, Row, one_line
from mucc.agent.store.records import TaskState
from mucc.api.progress import clock, is_terminal

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live as RichLive

REDRAWS = 2
"""A second, at the most; each takes some milliseconds."""

WIDTHS = {"": 7, "tried": 5, "best ms": 7, "gap": 5, "default": 7, "tf32": 5, "compile": 7}
"""Columns that are never narrower."""


def make(stream: TextIO, *, quiet: bool = False) -> Progress:
    """Return the display for a stream: none with `quiet`, live on a terminal, else a line for each event.

    Errors of a display never reach the run: a display that fails is dropped.
    """
    if quiet:
        return Quiet()
    return Safe(Live(stream) if is_terminal(stream) else Lines(stream))


class Quiet:
    """Shows nothing."""

    def opened(self, tasks: int, attempts: int) -> None:
        pass

    def task(self, task: Task, state: str, detail: str = "") -> None:
        pass

    def started(self, task: str, number: int, candidate: Candidate) -> None:
        pass

    def stage(self, task: str, number: int, stage: str) -> None:
        pass

    def called(self, task: str, calls: Sequence[Call]) -> None:
        pass

    def finished(self, task: str, attempt: Attempt, best_ms: float | None) -> None:
        pass

    def closed(self) -> None:
        pass


class Safe:
    """Forwards progress to a display, until the display raises."""

    def __init__(self, inner: Progress):
        self._inner: Progress = inner

    def _try(self, act: Callable[[Progress], None]) -> None:
        try:
            act(self._inner)
        except Exception:
            broken, self._inner = self._inner, Quiet()
            with contextlib.suppress(Exception):
                broken.closed()

    def opened(self, tasks: int, attempts: int) -> None:
        self._try(lambda inner: inner.opened(tasks, attempts))

    def task(self, task: Task, state: str, detail: str = "") -> None:
        self._try(lambda inner: inner.task(task, state, detail))

    def started(self, task: str, number: int, candidate: Candidate) -> None:
        self._try(lambda inner: inner.started(task, number, candidate))

    def stage(self, task: str, number: int, stage: str) -> None:
        self._try(lambda inner: inner.stage(task, number, stage))

    def called(self, task: str, calls: Sequence[Call]) -> None:
        self._try(lambda inner: inner.called(task, calls))

    def finished(self, task: str, attempt: Attempt, best_ms: float | None) -> None:
        self._try(lambda inner: inner.finished(task, attempt, best_ms))

    def closed(self) -> None:
        self._try(lambda inner: inner.closed())


class Lines:
    """A line for each task that changes its state, and for each attempt that ends."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._board = Board()

    def opened(self, tasks: int, attempts: int) -> None:
        self._board.opened(tasks, attempts)
        self._write(f"{tasks} {'task' if tasks == 1 else 'tasks'}, at most {attempts} attempts")

    def task(self, task: Task, state: str, detail: str = "") -> None:
        row = self._board.task(task, state, detail)
        if state == "implement":  # each attempt says what it changes
            return
        self._write(f"{task.key}: {state}{': ' if row.detail else ''}{row.detail}")

    def started(self, task: str, number: int, candidate: Candidate) -> None:
        self._board.started(task, number, candidate)

    def stage(self, task: str, number: int, stage: str) -> None:
        pass

    def called(self, task: str, calls: Sequence[Call]) -> None:
        self._board.called(task, calls)
        for call in calls:
            if call.error:
                self._write(f"{task}: {call.provider}: {one_line(call.error)}")

    def finished(self, task: str, attempt: Attempt, best_ms: float | None) -> None:
        self._board.finished(task, attempt, best_ms)
        self._write(f"{task}: {attempt_line(attempt, self._board.rows.get(task))}")

    def closed(self) -> None:
        board = self._board
        if not board.tasks:
            return
        line = f"{board.ended} of {board.tasks} tasks, {board.attempts} attempts, {_took(board)}"
        self._write(", ".join((line, *_spent(board))))
        board.tasks = 0

    def _write(self, line: str) -> None:
        self._stream.write(f"mucc-agent: {line}\n")
        self._stream.flush()


def attempt_line(attempt: Attempt, row: Row | None) -> str:
    """`#3 good, 0.1234 ms, 1.52x over compile, best: tile = 128x256x64`."""
    outcome = attempt.outcome
    parts = [f"#{attempt.number} {outcome.status}"]
    if outcome.ms is not None:
        parts.append(f"{outcome.ms:.4g} ms")
    if row is not None and attempt.ms is not None:
        theirs = {name: row.task.baselines[name] for name in BASELINES if name in row.task.baselines}
        parts += [f"{ms / attempt.ms:.2f}x over {name}" for name, ms in theirs.items()]
        if attempt.ms == row.best_ms:
            parts.append("best so far")
    if outcome.reason:
        parts.append(one_line(outcome.reason, 100))
    return f"{', '.join(parts)}: {one_line(attempt.candidate.change, 100)}"


class Live:
    """A row for each task, drawn anew a few times a second; it leaves nothing behind."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._board = Board()
        self._live: RichLive | None = None
        self._lock = threading.Lock()

    def opened(self, tasks: int, attempts: int) -> None:
        self._board.opened(tasks, attempts)
        self._show()

    def task(self, task: Task, state: str, detail: str = "") -> None:
        self._board.task(task, state, detail)

    def started(self, task: str, number: int, candidate: Candidate) -> None:
        self._board.started(task, number, candidate)

    def stage(self, task: str, number: int, stage: str) -> None:
        self._board.stage(task, number, stage)

    def called(self, task: str, calls: Sequence[Call]) -> None:
        self._board.called(task, calls)

    def finished(self, task: str, attempt: Attempt, best_ms: float | None) -> None:
        self._board.finished(task, attempt, best_ms)

    def closed(self) -> None:
        with self._lock:
            live, self._live = self._live, None
        if live is not None:
            with contextlib.suppress(OSError, ValueError):
                live.stop()
        atexit.unregister(self.closed)

    def _show(self) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        with self._lock:
            if self._live is not None:
                return
            self._live = RichLive(
                console=Console(file=self._stream),
                get_renderable=self.render,
                transient=True,
                refresh_per_second=REDRAWS,
                # What others write meanwhile comes out above the display.
                redirect_stdout=False,
                redirect_stderr=True,
            )
            atexit.register(self.closed)
            self._live.start()

    def render(self) -> RenderableType:
        """Return what to draw now. Never raises: it runs on a thread of rich's."""
        try:
            return self._render()
        except Exception:
            from rich.text import Text

            return Text("mucc-agent: this display has failed; the run goes on", style="dim")

    def _render(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        live = self._live
        height = live.console.height if live is not None else 40
        width = live.console.width if live is not None else 120
        table = Table.grid(padding=(0, 1), expand=True)
        heads = ("task", "", "tried", "best ms", "gap", *(BASELINES if width >= 90 else BASELINES[:1]), "now")
        for head in heads:
            numeric = head not in ("task", "", "now")
            table.add_column(
                justify="right" if numeric else "left",
                no_wrap=True,
                overflow="ellipsis",
                min_width=WIDTHS.get(head, 8),
                ratio=1 if head == "now" else None,
            )
        table.add_row(*(Text(head, style="dim") for head in heads))
        rows, hidden = _shown(list(self._board.rows.values()), max(height - 5, 3))
        for row in rows:
            table.add_row(*_cells(row, heads[5:-1]))
        parts: list[RenderableType] = [_totals(self._board), table]
        if hidden:
            parts.append(Text(f"and {hidden} more", style="dim"))
        return Group(*parts)


def _shown(rows: Sequence[Row], most: int) -> tuple[list[Row], int]:
    """Return the rows for which there is room, those that run first, and how many are left out."""
    if len(rows) <= most:
        return list(rows), 0
    order = {TaskState.RUNNING: 0, TaskState.WAITING: 2}
    found = sorted(rows, key=lambda row: order.get(TaskState(row.state), 1))
    return found[: most - 1], len(rows) - most + 1


COLOURS = {TaskState.RUNNING: "cyan", TaskState.DONE: "green", TaskState.FAILED: "red"}


def _cells(row: Row, baselines: Sequence[str]) -> list[RenderableType]:
    from rich.text import Text

    state = TaskState(row.state)
    since = min((a.since for a in list(row.running.values())), default=None)
    age = f" {clock(time.monotonic() - since)}" if since is not None else ""
    return [
        Text(row.task.key[-36:], style="bold" if state is TaskState.RUNNING else ""),
        Text(state, style=COLOURS.get(state, "dim")),
        Text(str(row.attempts)),
        Text(_number(row.best_ms, ".4g")),
        Text(_number(row.gap, ".2f")),
        *(Text(_number(row.speedup(name), ".2f")) for name in baselines),
        Text(row.now() + age, style="dim"),
    ]


def _totals(board: Board) -> RenderableType:
    from rich.text import Text

    parts = [
        f"{board.ended} of {board.tasks} tasks",
        f"{board.attempts} of at most {board.most} attempts",
        *_geomean(board),
        _took(board),
        *_spent(board),
    ]
    return Text(", ".join(parts))


def _geomean(board: Board) -> list[str]:
    """Return the mean speedup of tasks with a best; the final table counts the others too."""
    found = [s for row in list(board.rows.values()) if (s := row.speedup("default"))]
    if not found:
        return []
    mean = math.exp(math.fsum(map(math.log, found)) / len(found))
    return [f"{mean:.2f}x over PyTorch on {len(found)}"]


def _took(board: Board) -> str:
    return clock(time.monotonic() - board.began)


def _spent(board: Board) -> list[str]:
    if not board.calls:
        return []
    cost = [] if board.cost is None else [f"${board.cost:.2f}"]
    return [f"{board.tokens} tokens", *cost]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
