"""Shows how a pool of builds is getting on: live on a terminal, as lines in a log, or not at all.

with Pool(display=display(sys.stderr, json=…, verbose=…)) as pool: …
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections.abc import Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO

from mucc.build.jobs import Job, Result

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live as RichLive
    from rich.spinner import Spinner

PATIENCE = 0.5
"""Seconds that something runs before a live display appears. Importing rich takes a tenth of one."""

MAX_ROWS = 12
"""Running jobs that a live display lists."""


class Display(Protocol):
    """What a pool tells of its jobs, from any thread; those of one job come in order."""

    def opened(self, cores: int, memory_bytes: int) -> None:
        """A pool has these bounds."""
        ...

    def expected(self, programs: int) -> None:
        """So many more programs are to be built."""
        ...

    def queued(self, job: Job) -> None:
        """A job waits for its turn."""
        ...

    def started(self, job: Job, memory_bytes: int) -> None:
        """A job runs, and that much memory is set aside for it."""
        ...

    def finished(self, job: Job, result: Result) -> None:
        """A job ended well."""
        ...

    def failed(self, job: Job, reason: str) -> None:
        """A job that ran ended otherwise."""
        ...

    def dropped(self, job: Job) -> None:
        """A job that waited will not run."""
        ...

    def cached(self, program: str, stage: str) -> None:
        """A stage was found in the cache."""
        ...

    def done(self, program: str) -> None:
        """A program is built, or has failed."""
        ...

    def closed(self) -> None:
        """The pool has ended: leave the terminal as it was. May be called again."""
        ...

    def paused(self) -> AbstractContextManager[None]:
        """While this is entered nothing is drawn, so that others may write to the stream."""
        ...


def display(stream: TextIO, *, json: bool = False, verbose: bool = False) -> Display:
    """The display that suits a stream: none for JSON; live on a terminal; lines with `verbose`."""
    if json:
        return Quiet()
    if is_terminal(stream):
        return Live(stream, verbose=verbose)
    return Lines(stream) if verbose else Quiet()


def is_terminal(stream: TextIO) -> bool:
    """Whether a stream is a terminal that can be drawn on."""
    import os

    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # closed
        return False


class Quiet:
    """Shows nothing."""

    def opened(self, cores: int, memory_bytes: int) -> None:
        pass

    def expected(self, programs: int) -> None:
        pass

    def queued(self, job: Job) -> None:
        pass

    def started(self, job: Job, memory_bytes: int) -> None:
        pass

    def finished(self, job: Job, result: Result) -> None:
        pass

    def failed(self, job: Job, reason: str) -> None:
        pass

    def dropped(self, job: Job) -> None:
        pass

    def cached(self, program: str, stage: str) -> None:
        pass

    def done(self, program: str) -> None:
        pass

    def closed(self) -> None:
        pass

    @contextlib.contextmanager
    def paused(self) -> Generator[None]:
        yield


class Lines(Quiet):
    """A line for each job that starts or ends."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._lock = threading.Lock()

    def started(self, job: Job, memory_bytes: int) -> None:
        self.write(f"{job.place}: started")

    def finished(self, job: Job, result: Result) -> None:
        self.write(finished_line(job, result))

    def failed(self, job: Job, reason: str) -> None:
        self.write(failed_line(job))

    def cached(self, program: str, stage: str) -> None:
        self.write(cached_line(program, stage))

    def write(self, line: str) -> None:
        """One line; a stream that cannot be written is no reason to end a build."""
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._stream.write(f"mucc: {line}\n")
            self._stream.flush()


def finished_line(job: Job, result: Result) -> str:
    """`gelu.mcu: link: 0.1 s, 35 MB`."""
    memory = f", {result.peak_bytes / 1e6:.0f} MB" if result.peak_bytes else ""
    return f"{job.place}: {result.seconds:.1f} s{memory}"


def failed_line(job: Job) -> str:
    """`gelu.mcu: link: failed`; the diagnostic says why."""
    return f"{job.place}: failed"


def cached_line(program: str, stage: str) -> str:
    """`gelu.mcu: link: found in the cache`."""
    return f"{program}: {stage}: found in the cache"


@dataclass(frozen=True, slots=True)
class Running:
    """A job that runs: since when, on the clock of time.monotonic, and with how much memory."""

    job: Job
    since: float
    memory_bytes: int


class Live(Quiet):
    """A bar for the programs and a row for each running job, drawn anew several times a second.

    It appears when a job has been running for PATIENCE seconds, and leaves nothing behind. With
    `verbose` a line for each job that ends stays above it.
    """

    def __init__(self, stream: TextIO, *, verbose: bool = False):
        self._lines = Lines(stream) if verbose else None
        self._stream = stream
        self._lock = threading.RLock()
        self._running: list[Running] = []
        self._waiting = 0
        self._programs = 0
        self._programs_done = 0
        self._memory_bytes = 0
        self._began = time.monotonic()
        self._timer: threading.Timer | None = None
        self._live: RichLive | None = None
        self._spinner: Spinner | None = None
        self._pauses = 0
        self._closed = False

    def opened(self, cores: int, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._closed = False

    def expected(self, programs: int) -> None:
        with self._lock:
            self._leave_or_begin()
            self._programs += programs

    def queued(self, job: Job) -> None:
        with self._lock:
            self._leave_or_begin()
            self._waiting += 1

    def started(self, job: Job, memory_bytes: int) -> None:
        with self._lock:
            self._waiting -= 1
            self._running.append(Running(job, time.monotonic(), memory_bytes))
            self._arm(PATIENCE)

    def finished(self, job: Job, result: Result) -> None:
        self._ended(job)
        self._say(finished_line(job, result))

    def failed(self, job: Job, reason: str) -> None:
        self._ended(job)
        self._say(failed_line(job))

    def dropped(self, job: Job) -> None:
        with self._lock:
            self._waiting -= 1
            self._leave_or_begin()

    def cached(self, program: str, stage: str) -> None:
        self._say(cached_line(program, stage))

    def done(self, program: str) -> None:
        with self._lock:
            self._programs_done += 1
            self._leave_or_begin()

    def closed(self) -> None:
        with self._lock:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._hide()
        atexit.unregister(self.closed)

    @contextlib.contextmanager
    def paused(self) -> Generator[None]:
        with self._lock:
            self._pauses += 1
            self._hide()
        try:
            yield
        finally:
            with self._lock:
                self._pauses -= 1
                if self._running:
                    self._arm(0)

    def _ended(self, job: Job) -> None:
        with self._lock:
            # The oldest only: the same job may run twice at once.
            found = next((running for running in self._running if running.job is job), None)
            if found is not None:
                self._running.remove(found)
            self._leave_or_begin()

    def _leave_or_begin(self) -> None:
        """Where there is nothing to do, count from nought, and show nothing: a pool may live long."""
        if self._running or self._waiting or self._programs_done < self._programs:
            return
        self._programs = self._programs_done = 0
        self._began = time.monotonic()
        self._hide()

    def _say(self, line: str) -> None:
        if self._lines is not None:
            with self.paused():
                self._lines.write(line)

    def _arm(self, seconds: float) -> None:
        """See in a while whether the display is worth showing."""
        if self._timer is None and self._live is None and not self._closed:
            self._timer = threading.Timer(seconds, self._due)
            self._timer.daemon = True
            self._timer.start()

    def _due(self) -> None:
        # Not under the lock, where the pool would wait for it.
        import rich.live  # noqa: F401  # pyright: ignore[reportUnusedImport]

        with self._lock:
            self._timer = None
            if self._closed or self._pauses or not self._running:
                return
            age = time.monotonic() - self._running[0].since
            if age < PATIENCE:
                self._arm(PATIENCE - age)
            else:
                self._show()

    def _show(self) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._live = RichLive(
            console=Console(file=self._stream),
            get_renderable=self.render,
            transient=True,
            refresh_per_second=8,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        atexit.register(self.closed)
        with contextlib.suppress(OSError, ValueError):
            self._live.start()

    def _hide(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            with contextlib.suppress(OSError, ValueError):
                live.stop()

    def render(self) -> RenderableType:
        """What is drawn now."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        now = time.monotonic()
        # Without the lock: rich has locks of its own around this, and `_hide` takes both the other way round.
        running = list(self._running)
        waiting, programs, done = self._waiting, self._programs, self._programs_done
        used = sum(r.memory_bytes for r in running)
        if self._spinner is None:
            self._spinner = Spinner("dots")
        head = Table.grid(padding=(0, 1))
        cells: list[RenderableType] = [self._spinner]
        if programs:
            cells += [ProgressBar(programs, done, width=20), Text(f"{done} of {programs} programs")]
        cells.append(Text(f"{len(running)} running, {waiting} waiting", style="dim"))
        bound = f" of {self._memory_bytes / 1e9:.0f}" if self._memory_bytes < 1 << 50 else ""
        cells.append(Text(f"{used / 1e9:.1f}{bound} GB", style="dim"))
        cells.append(Text(clock(now - self._began), style="dim"))
        head.add_row(*cells)
        rows = Table.grid(padding=(0, 2))
        rows.add_column(no_wrap=True, overflow="ellipsis")
        rows.add_column(no_wrap=True, overflow="ellipsis")
        rows.add_column(justify="right", no_wrap=True)
        for r in running[:MAX_ROWS]:
            rows.add_row(
                Text(f"  {r.job.program}", style="cyan"), Text(r.job.stage), Text(clock(now - r.since))
            )
        if len(running) > MAX_ROWS:
            rows.add_row(Text(f"  and {len(running) - MAX_ROWS} more", style="dim"))
        return Group(head, rows)


def clock(seconds: float) -> str:
    """`7 s`, or `1:07` from a minute on."""
    whole = int(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60}:{whole % 60:02}"
