"""Progress displays for a pool of builds: live on a terminal, as lines in a log, or none.

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
"""The seconds that a job runs before a live display appears; importing rich takes a tenth of a second."""

MAX_ROWS = 12
"""The most running jobs that a live display lists."""


class Display(Protocol):
    """Receiver of a pool's events, from any thread; events of one job are in order."""

    def opened(self, cores: int, memory_bytes: int) -> None:
        """Report the bounds of a pool."""
        ...

    def expected(self, programs: int) -> None:
        """Report that the number of programs to build grows by `programs`."""
        ...

    def queued(self, job: Job) -> None:
        """Report that a job waits for its turn."""
        ...

    def started(self, job: Job, memory_bytes: int) -> None:
        """Report that a job was started, with `memory_bytes` reserved for it."""
        ...

    def finished(self, job: Job, result: Result) -> None:
        """Report that a job succeeded."""
        ...

    def failed(self, job: Job, reason: str) -> None:
        """Report that a running job failed or was cancelled."""
        ...

    def dropped(self, job: Job) -> None:
        """Report that a waiting job was cancelled."""
        ...

    def cached(self, program: str, stage: str) -> None:
        """Report that a stage was found in the cache."""
        ...

    def done(self, program: str) -> None:
        """Report that the build of a program has succeeded or failed."""
        ...

    def closed(self) -> None:
        """Restore the terminal, since the pool was closed. May be called several times."""
        ...

    def paused(self) -> AbstractContextManager[None]:
        """Suspend drawing, so that other code may write to the stream."""
        ...


def display(stream: TextIO, *, json: bool = False, verbose: bool = False) -> Display:
    """Choose the display for a stream: none for JSON, live on a terminal, lines with `verbose`."""
    if json:
        return Quiet()
    if is_terminal(stream):
        return Live(stream, verbose=verbose)
    return Lines(stream) if verbose else Quiet()


def is_terminal(stream: TextIO) -> bool:
    """Whether a stream is a terminal with cursor control."""
    import os

    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # closed
        return False


class Quiet:
    """A display that shows nothing."""

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
    """A display that prints a line for each job that starts or ends."""

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
        """Write a line, ignoring errors of the stream."""
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._stream.write(f"mucc: {line}\n")
            self._stream.flush()


def finished_line(job: Job, result: Result) -> str:
    """Print a finished job, such as `gelu.mcu: link: 0.1 s, 35 MB`."""
    memory = f", {result.peak_bytes / 1e6:.0f} MB" if result.peak_bytes else ""
    return f"{job.place}: {result.seconds:.1f} s{memory}"


def failed_line(job: Job) -> str:
    """Print a failed job, such as `gelu.mcu: link: failed`."""
    return f"{job.place}: failed"


def cached_line(program: str, stage: str) -> str:
    """Print a cached step, such as `gelu.mcu: link: found in the cache`."""
    return f"{program}: {stage}: found in the cache"


@dataclass(frozen=True, slots=True)
class Running:
    """A running job: its start by `time.monotonic`, and its reserved memory."""

    job: Job
    since: float
    memory_bytes: int


class Live(Quiet):
    """A live display: a progress bar of programs, and a row for each running job.

    It appears when a job has run for PATIENCE seconds, and is erased at the end. With `verbose`, a line for
    each finished job stays above it.
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
            self._reset_if_idle()
            self._programs += programs

    def queued(self, job: Job) -> None:
        with self._lock:
            self._reset_if_idle()
            self._waiting += 1

    def started(self, job: Job, memory_bytes: int) -> None:
        with self._lock:
            self._waiting -= 1
            self._running.append(Running(job, time.monotonic(), memory_bytes))
            self._show_after(PATIENCE)

    def finished(self, job: Job, result: Result) -> None:
        self._ended(job)
        self._say(finished_line(job, result))

    def failed(self, job: Job, reason: str) -> None:
        self._ended(job)
        self._say(failed_line(job))

    def dropped(self, job: Job) -> None:
        with self._lock:
            self._waiting -= 1
            self._reset_if_idle()

    def cached(self, program: str, stage: str) -> None:
        self._say(cached_line(program, stage))

    def done(self, program: str) -> None:
        with self._lock:
            self._programs_done += 1
            self._reset_if_idle()

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
                    self._show_after(0)

    def _ended(self, job: Job) -> None:
        with self._lock:
            # The oldest only: the same job may run twice at the same time.
            oldest = next((running for running in self._running if running.job is job), None)
            if oldest is not None:
                self._running.remove(oldest)
            self._reset_if_idle()

    def _reset_if_idle(self) -> None:
        """If the pool is idle, reset the counters and hide the display."""
        if self._running or self._waiting or self._programs_done < self._programs:
            return
        self._programs = self._programs_done = 0
        self._began = time.monotonic()
        self._hide()

    def _say(self, line: str) -> None:
        if self._lines is not None:
            with self.paused():
                self._lines.write(line)

    def _show_after(self, seconds: float) -> None:
        """Start a timer that shows the display if jobs are still running then."""
        if self._timer is None and self._live is None and not self._closed:
            self._timer = threading.Timer(seconds, self._due)
            self._timer.daemon = True
            self._timer.start()

    def _due(self) -> None:
        # Outside the lock, so that the pool does not wait for the import.
        import rich.live  # noqa: F401  # pyright: ignore[reportUnusedImport]

        with self._lock:
            self._timer = None
            if self._closed or self._pauses or not self._running:
                return
            age = time.monotonic() - self._running[0].since
            if age < PATIENCE:
                self._show_after(PATIENCE - age)
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
        """Render the display at this moment."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        now = time.monotonic()
        # Without the lock: rich holds its own lock here, and `_hide` acquires both in the opposite order.
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
    """Print a duration: `7 s`, or `1:07` from a minute on."""
    whole = int(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60}:{whole % 60:02}"
