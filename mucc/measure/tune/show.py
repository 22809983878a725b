"""Show the progress of a search: one line on a terminal that is redrawn, or one line for each event."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, fields
from typing import TextIO

from mucc.build.progress import clock, is_terminal
from mucc.database.records import Record
from mucc.measure.tune.building import Built
from mucc.measure.tune.plans import Candidate, Kernel, Size, compact
from mucc.measure.tune.search import Silent, Watcher

CLEAR = "\r\x1b[2K"


def watcher(stream: TextIO, *, json: bool = False) -> Watcher:
    """Return the watcher that suits a stream."""
    if json:
        return Silent()
    return Live(stream) if is_terminal(stream) else Lines(stream)


@dataclass
class _Counts:
    """How far the stage of a kernel is."""

    candidates: int = 0
    measurements: int = 0
    built: int = 0
    measured: int = 0
    failed: int = 0


class _Counting(Silent):
    """Counts over all kernels that are searched now, and remembers the best of each size."""

    def __init__(self, stream: TextIO):
        self.stream = stream
        self.began_at = time.monotonic()
        self.counts: dict[str, _Counts] = {}
        self.best: dict[tuple[str, str], Record] = {}

    def began(self, kernel: Kernel, stage: str, candidates: int, measurements: int) -> None:
        self.counts[kernel.digest] = _Counts(candidates, measurements)

    def built(self, built: Built) -> None:
        if (counts := self.counts.get(built.kernel.digest)) is not None:
            counts.built += 1

    def measured(self, kernel: Kernel, size: Size, candidate: Candidate, record: Record, known: bool) -> None:
        if not known and (counts := self.counts.get(kernel.digest)) is not None:
            counts.measured += 1
            counts.failed += not record.is_good
        key = (kernel.digest, size.text)
        if record.is_good and (key not in self.best or record.time_us < self.best[key].time_us):
            self.best[key] = record

    def ended(self, kernel: Kernel, stage: str, reason: str) -> None:
        self.counts.pop(kernel.digest, None)

    @property
    def total(self) -> _Counts:
        """The sums over kernels."""
        found = self.counts.values()
        return _Counts(*(sum(getattr(c, f.name) for c in found) for f in fields(_Counts)))

    def write(self, text: str) -> None:
        """Best effort: a stream that is gone is no reason to lose a search."""
        with contextlib.suppress(OSError, ValueError):
            self.stream.write(text)
            self.stream.flush()

    def standing(self, kernel: Kernel, size: Size) -> str:
        """`best 145.2 µs, 946 TFLOP/s, 96% of the bound`."""
        record = self.best.get((kernel.digest, size.text))
        return "no time yet" if record is None else f"best {rate(size, record)}"


def rate(size: Size, record: Record) -> str:
    """`145.2 µs, 946 TFLOP/s, 96% of the bound 138.9 µs`."""
    parts = [f"{record.time_us:.1f} µs"]
    if size.flops:
        parts.append(f"{size.flops / record.time_us * 1e-6:.0f} TFLOP/s")
    if size.bound_us:
        parts.append(f"{size.bound_us / record.time_us:.0%} of the bound {size.bound_us:.1f} µs")
    return ", ".join(parts)


class Lines(_Counting):
    """A line for each event, for logs."""

    def began(self, kernel: Kernel, stage: str, candidates: int, measurements: int) -> None:
        super().began(kernel, stage, candidates, measurements)
        where = f"{kernel.name}.{stage}" if len(kernel.bodies) > 1 else kernel.name
        self.write(f"mucc: {where}: {candidates} candidates to build, {measurements} measurements\n")

    def built(self, built: Built) -> None:
        super().built(built)
        total = self.total
        what = f"{total.built} of {total.candidates} built: {compact(built.candidate.settings)}"
        failed = f": {built.failure.reason}" if built.failure else ""
        self.write(f"mucc: {what}{failed}\n")

    def measured(self, kernel: Kernel, size: Size, candidate: Candidate, record: Record, known: bool) -> None:
        super().measured(kernel, size, candidate, record, known)
        if known:
            return
        said = rate(size, record) if record.is_good else f"{record.run.status.value}: {record.run.reason}"
        total = self.total
        what = f"{total.measured} of {total.measurements} measured: {compact(candidate.settings)}"
        self.write(f"mucc: {what}: {said}; at {size.text}: {self.standing(kernel, size)}\n")

    def ended(self, kernel: Kernel, stage: str, reason: str) -> None:
        super().ended(kernel, stage, reason)
        if reason:
            self.write(f"mucc: {kernel.name}: {reason}\n")


class Live(_Counting):
    """One line on a terminal, which leaves nothing behind."""

    PERIOD = 0.5

    def __init__(self, stream: TextIO):
        super().__init__(stream)
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._now: tuple[Kernel, Size] | None = None

    def began(self, kernel: Kernel, stage: str, candidates: int, measurements: int) -> None:
        super().began(kernel, stage, candidates, measurements)
        self._now = (kernel, kernel.sizes[0])
        self._draw()

    def built(self, built: Built) -> None:
        super().built(built)
        self._draw()

    def measured(self, kernel: Kernel, size: Size, candidate: Candidate, record: Record, known: bool) -> None:
        super().measured(kernel, size, candidate, record, known)
        self._now = (kernel, size)
        self._draw()

    def ended(self, kernel: Kernel, stage: str, reason: str) -> None:
        super().ended(kernel, stage, reason)
        if not self.counts:
            self.close()
        if reason:
            self.write(f"mucc: {kernel.name}: {reason}\n")

    def close(self) -> None:
        """Leave the terminal as it was."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._now is not None:
                self._now = None
                self.write(CLEAR)

    def line(self, width: int) -> str:
        """Return the line to draw now, cut to a number of columns."""
        if self._now is None:
            return ""
        kernel, size = self._now
        total = self.total
        failed = f", {total.failed} failed" if total.failed else ""
        text = (
            f"{kernel.name}: {total.built} of {total.candidates} built, "
            f"{total.measured} of {total.measurements} measured{failed}, "
            f"{clock(time.monotonic() - self.began_at)}; {size.text}: {self.standing(kernel, size)}"
        )
        return text if len(text) < width else f"{text[: width - 2]}…"

    def _draw(self) -> None:
        import shutil

        with self._lock:
            if self._now is None:
                return
            self.write(CLEAR + self.line(shutil.get_terminal_size().columns))
            if self._timer is not None:
                self._timer.cancel()
            self._timer = threading.Timer(self.PERIOD, self._draw)
            self._timer.daemon = True
            self._timer.start()
