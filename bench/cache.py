"""Processes that build and evict in one small cache, and are killed at random: is an entry ever wrong?

    python -m bench.cache [--minutes 10] [--processes 8] [--size 8M] [--kills 4]

Every process builds entries whose bytes follow from their keys, some slowly, some made of others, some
used in place; reads them, and compares. Now and then it hesitates before it touches a file, so that others
come between, or kills itself there; and it is killed at any time from outside. SIGKILL each time.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import mmap
import multiprocessing
import os
import random
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from bench.common import cpu_label, run_main, write_result
from mucc.build.cache import Cache, Entry, digest
from mucc.build.cache.entries import counted
from mucc.build.cache.upkeep import BLOCK, DAY, parse_size

COUNTERS = (
    "operations",
    "builds",
    "hits",
    "requests",
    "files",
    "vanished",
    "checks",
    "wrong",
    "lost",
    "problems",
)
"""What a process counts. `vanished` are files that were evicted between being found and being read, which
is allowed; `lost` are entries that were gone after a store although nothing of their level was evicted."""

BAD = ("wrong", "lost", "problems")

LEVELS = ("artefacts", "device", "host", "objects")
KEYS = 80
"""The keys of each level; small numbers are asked for more often."""

FILES = 12
NAME = "prelude.hpp.gch"
PART = 64
"""The smallest entry is this size in bytes, and the largest a sixteenth of the bound."""

SAMPLE = 1.0
"""The seconds between two looks at the size of the cache."""

HESITATE, DIE = 0.03, 0.001
"""How likely each is before a file is touched."""

EVENTS = {
    "open",
    "fcntl.flock",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.truncate",
    "os.utime",
}
"""What Python announces before it touches a file."""


def key_of(level: str, number: int) -> str:
    """The key of an entry."""
    return digest(level, str(number))


def expected(level: str, number: int, largest: int) -> bytes:
    """The bytes that belong to a key: between PART and `largest`, small ones more often."""
    block = hashlib.blake2b(f"{level} {number}".encode()).digest()
    share = int.from_bytes(block[:2]) / 65535
    size = int(PART * (largest / PART) ** (0.7 + 0.3 * share if level == "headers" else share))
    return (block * (size // len(block) + 1))[:size]


class Counters:
    """The counters of one process, in a file that stays when it is killed."""

    def __init__(self, path: Path):
        if not path.exists():
            path.write_bytes(bytes(8 * len(COUNTERS)))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def add(self, name: str) -> None:
        """Count one."""
        at = 8 * COUNTERS.index(name)
        struct.pack_into("<Q", self._map, at, struct.unpack_from("<Q", self._map, at)[0] + 1)

    def values(self) -> dict[str, int]:
        """All of them."""
        return dict(zip(COUNTERS, struct.unpack_from(f"<{len(COUNTERS)}Q", self._map), strict=True))


class Worker:
    """One of the processes. It runs until it is killed."""

    def __init__(self, directory: Path, bound: int, slot: int):
        self.cache = Cache(str(directory / "cache"), bound=bound, shared=())
        self.largest = bound // 16
        self.counters = Counters(directory / f"counters.{slot}")
        self.complaints = directory / "complaints"
        self.random = random.Random()

    def hinder(self, event: str, _: object) -> None:
        """Called before a file is touched."""
        if event in EVENTS and (chance := self.random.random()) < HESITATE:
            if chance < DIE:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(self.random.uniform(0, 0.02))

    def run(self) -> None:
        """Do one thing after another."""
        sys.addaudithook(self.hinder)
        actions = (self.build, self.build, self.build, self.whole, self.request, self.file, self.find)
        while True:
            self.random.choice(actions)()
            if self.random.random() < 0.002:
                self.check()
            if self.cache.problems:
                self.complain("problems", "; ".join(map(str, self.cache.problems)))
                self.cache.problems.clear()
            self.counters.add("operations")

    def complain(self, counter: str, text: str) -> None:
        """Something is wrong: count it, and leave a line for people."""
        self.counters.add(counter)
        with self.complaints.open("a") as file:
            file.write(f"{counter}: {text}\n")

    def pick(self) -> int:
        """A key, small ones more often."""
        return int(KEYS * self.random.random() ** 3)

    def compare(self, level: str, number: int, data: bytes) -> None:
        """Complain unless `data` is what belongs to the key."""
        if data != (good := expected(level, number, self.largest)):
            self.complain("wrong", f"{level} {number}: {len(data)} bytes, not the {len(good)} expected")

    def evicted(self, level: str) -> int:
        """How many entries of a level were evicted so far, by anybody."""
        return counted(self.cache.directory, level, "evicted")

    def build(self, level: str | None = None, number: int | None = None) -> bytes:
        """Build or find an entry; one that was made must still be there unless it was evicted."""
        level = level or self.random.choice(LEVELS)
        number = self.pick() if number is None else number
        key, made, before = key_of(level, number), False, self.evicted(level)

        def make() -> Entry:
            nonlocal made
            made = True
            if self.random.random() < 0.05:
                time.sleep(self.random.uniform(0.01, 0.1))
            return Entry(expected(level, number, self.largest), (), {"number": number})

        entry = self.cache.build(level, key, make, fresh=self.random.random() < 0.02)
        self.counters.add("builds" if made else "hits")
        self.compare(level, number, entry.data)
        if made:
            if (found := self.cache.find(level, key)) is not None:
                self.compare(level, number, found.data)
            elif self.evicted(level) == before:
                self.complain("lost", f"{level} {number}")
        return entry.data

    def whole(self) -> None:
        """An artefact that is made of parts, as a real one is."""
        number = self.pick()

        def make() -> Entry:
            for level in ("device", "host", "objects"):
                self.build(level, number)
            self.file(number % FILES)
            return Entry(expected("artefacts", number, self.largest))

        self.compare(
            "artefacts", number, self.cache.build("artefacts", key_of("artefacts", number), make).data
        )

    def request(self) -> None:
        """A request, and the artefact that it leads to."""
        number = self.pick()
        key, artefact = key_of("requests", number), key_of("artefacts", number)
        if (entry := self.cache.find_request(key)) is None:
            self.build("artefacts", number)
            self.cache.store_request(key, artefact, ())
        else:
            self.compare("artefacts", number, entry.data)
        self.counters.add("requests")

    def file(self, number: int | None = None) -> None:
        """A file that is used in place; it may vanish before it is opened, and never while it is read."""
        number = self.random.randrange(FILES) if number is None else number
        data = expected("headers", number, self.largest)

        def make(path: str) -> None:
            with open(path, "wb") as file:
                for start in range(0, len(data), len(data) // 4 + 1):
                    file.write(data[start : start + len(data) // 4 + 1])
                    time.sleep(0.001)

        path = self.cache.build_file("headers", key_of("headers", number), NAME, make)
        self.counters.add("files")
        self.pause()
        try:
            with open(path or "", "rb") as file:
                half = file.read(len(data) // 2)
                self.pause()
                self.compare("headers", number, half + file.read())
        except FileNotFoundError:
            self.counters.add("vanished")

    def pause(self) -> None:
        """Give others the time to do harm, now and then."""
        if self.random.random() < 0.1:
            time.sleep(0.02)

    def find(self) -> None:
        """Only look."""
        level, number = self.random.choice(LEVELS), self.pick()
        if (entry := self.cache.find(level, key_of(level, number))) is not None:
            self.compare(level, number, entry.data)
            self.counters.add("hits")

    def check(self) -> None:
        """Check every entry while others work."""
        report = self.cache.verify()
        self.counters.add("checks")
        if report.damaged or report.unreadable:
            self.complain("wrong", f"verify found {report}")


def work(directory: Path, bound: int, slot: int) -> None:
    """What a process does until it is killed."""
    Worker(directory, bound, slot).run()


@dataclass(frozen=True, slots=True)
class Sample:
    """A look at the cache while every process stands still: bytes of disk, temporary and lock files."""

    size: int
    temporary: int
    locks: int


def look(directory: Path) -> Sample:
    """Count the files of a cache, without its own means."""
    size = temporary = locks = 0
    for root, folders, names in os.walk(directory):
        temporary += sum(name.endswith(".tmp") for name in folders)
        for name in names:
            temporary += name.endswith(".tmp")
            locks += os.path.basename(root) == "locks" and "-" in name
            if name != "usage.mucc":  # sparse: its length is an account, not what it takes
                size += -(-os.path.getsize(os.path.join(root, name)) // BLOCK) * BLOCK
    return Sample(size, temporary, locks)


class Stress:
    """The processes, and who kills them."""

    def __init__(self, directory: Path, processes: int, bound: int):
        self.directory, self.bound = directory, bound
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["bench.common", "mucc.build.cache.upkeep"])
        self.workers = [self.start(slot) for slot in range(processes)]
        self.kills = 0
        self.samples: list[Sample] = []

    def start(self, slot: int) -> ForkServerProcess:
        """Start a process anew."""
        process = self.context.Process(target=work, args=(self.directory, self.bound, slot), daemon=True)
        process.start()
        return process

    def run(self, seconds: float, kills: float, fewest: int = 0) -> None:
        """Kill so many processes in a second, and look at the cache now and then, until all has happened
        `fewest` times.

        Raises RuntimeError where one ended by itself.
        """
        end = time.monotonic() + seconds
        next_look, next_kill = time.monotonic() + SAMPLE, time.monotonic() + 0.5
        try:
            while (now := time.monotonic()) < end or not self.has_done(fewest):
                if now >= next_kill:
                    self.workers[random.randrange(len(self.workers))].kill()
                    next_kill = now + random.expovariate(kills)
                if now >= next_look:
                    self.sample()
                    next_look = time.monotonic() + SAMPLE
                for slot, worker in enumerate(self.workers):
                    if (status := worker.exitcode) == -signal.SIGKILL:
                        self.kills += 1
                        self.workers[slot] = self.start(slot)
                    elif status is not None:
                        raise RuntimeError(f"a process ended with {status}: {self.complaints()}")
                time.sleep(0.005)
        finally:
            for worker in self.workers:
                worker.kill()
            for worker in self.workers:
                worker.join()

    def has_done(self, fewest: int) -> bool:
        """Whether everything that matters has happened so many times."""
        if not fewest:
            return True
        done = self.counted()
        return min(done[name] for name in ("builds", "hits", "files", "evictions")) >= fewest <= self.kills

    def counted(self) -> dict[str, int]:
        """What the processes have counted, and evictions."""
        counts: dict[str, int] = dict.fromkeys(COUNTERS, 0)
        for path in self.directory.glob("counters.*"):
            for counter, value in Counters(path).values().items():
                counts[counter] += value
        cache = Cache(str(self.directory / "cache"), shared=())
        counts["evictions"] = sum(level.evicted for level in cache.stats().levels.values())
        return counts

    def sample(self) -> None:
        """Look at the cache while nobody writes to it."""
        pids = [worker.pid for worker in self.workers if worker.pid is not None]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        while not all(map(_stands_still, pids)):
            time.sleep(0.001)
        self.samples.append(look(self.directory / "cache"))
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def complaints(self) -> str:
        """What the processes said."""
        path = self.directory / "complaints"
        return path.read_text()[:2000] if path.exists() else ""


def _stands_still(pid: int) -> bool:
    """Whether a process is stopped, or has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "TtZX"


def stress(
    seconds: float, processes: int = 8, bound: int = 8 << 20, kills: float = 4.0, fewest: int = 0
) -> dict[str, int]:
    """Run so long, and until everything has happened `fewest` times; the counts. Raises RuntimeError where
    anything was wrong."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "cache").mkdir()
        run = Stress(directory, processes, bound)
        run.run(seconds, kills, fewest)
        counts = run.counted()
        counts["kills"] = run.kills + processes
        counts["largest_size"] = max((s.size for s in run.samples), default=0)
        counts["most_temporary"] = max((s.temporary for s in run.samples), default=0)
        counts["most_locks"] = max((s.locks for s in run.samples), default=0)
        if failures := [f"{counts[name]} {name}" for name in BAD if counts[name]]:
            raise RuntimeError(f"{', '.join(failures)}: {run.complaints()}")
        if counts["largest_size"] > bound + processes * bound // 16:
            raise RuntimeError(f"the cache held {counts['largest_size']} bytes, and may hold {bound}")
        cache = Cache(str(directory / "cache"), bound=bound, shared=())
        counts["whole_at_the_end"] = _at_the_end(cache, processes)
        return counts


def _at_the_end(cache: Cache, processes: int) -> int:
    """After all were killed: every entry is whole and right, and what they left goes.

    The number of entries.
    """
    report = cache.verify()
    if report.damaged or report.unreadable:
        raise RuntimeError(f"damaged at the end: {report}")
    largest = cache.bound // 16
    found = 0
    for level, keys in (*((level, KEYS) for level in LEVELS), ("headers", FILES)):
        for number in range(keys):
            key = key_of(level, number)
            if level == "headers":
                path = cache.find_file(level, key, NAME)
                data = None if path is None else Path(path).read_bytes()
            else:
                entry = cache.find(level, key)
                data = None if entry is None else entry.data
            if data is not None:
                found += 1
                if data != expected(level, number, largest):
                    raise RuntimeError(f"wrong at the end: {level} {number}")
    if cache.problems:
        raise RuntimeError(f"said at the end: {cache.problems}")
    old = time.time() - 2 * DAY
    os.utime(os.path.join(cache.directory, "locks", "upkeep.mucc"), (old, old))
    cache.store("objects", "f" * 64, Entry(b""))
    left = look(Path(cache.directory))
    if left.temporary or left.locks or left.size > cache.bound + processes * BLOCK:
        raise RuntimeError(f"left at the end: {left}")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, write the result, and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="default: 10")
    parser.add_argument("--processes", type=int, default=8, help="default: 8")
    parser.add_argument("--size", default="8M", help="the bound of the cache (default: 8M)")
    parser.add_argument("--kills", type=float, default=4.0, help="in a second (default: 4)")
    options = parser.parse_args(arguments)
    if (bound := parse_size(options.size)) is None:
        parser.error(f"'{options.size}' is no size")
    counts = stress(options.minutes * 60, options.processes, bound, options.kills)
    print(json.dumps(counts, indent=1))
    row: dict[str, object] = {
        "minutes": options.minutes,
        "processes": options.processes,
        "bound": bound,
        "largest_entry": bound // 16,
        **counts,
    }
    names = ("operations", "builds", "hits", "kills", "evictions", *BAD)
    summary = {f"cache.stress_{name}": float(counts[name]) for name in names}
    print(write_result(cpu_label(), "cache", [row], {"cache.stress_minutes": options.minutes, **summary}))


if __name__ == "__main__":
    run_main(main)
