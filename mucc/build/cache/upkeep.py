"""Maintain a cache: store within the bound, evict, sweep, count, verify.

This module is loaded for stores only. Stores need no scan of the cache: the length of the file
`locks/usage.mucc` estimates the size of the cache in blocks. Every store first extends the file by the size
of its entry, so a killed process leaves an estimate that is too high, never too low. If the estimate exceeds
the bound, or is a day old, one process scans the cache, removes abandoned files and the least recently used
entries, and corrects the estimate.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mucc.build.cache import folders, locks
from mucc.build.cache.entries import LEVELS, SUFFIX, count, counted, unpack
from mucc.files.atomic import fill_and_rename
from mucc.files.digest import FORMAT

BLOCK = 4096
"""The size of a block in bytes: files take a multiple of it on most disks."""

FILL = 0.9
"""The part of the bound that an eviction leaves filled, so that the next one is not soon."""

DAY = 86400.0
"""The age in seconds of an outdated estimate, and of abandoned files where there are no locks."""

PATIENCE = 10.0
"""The seconds to wait for an eviction by another process, before storing without it."""

_SIZE = re.compile(r"\s*(\d{1,15}(?:\.\d*)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE | re.ASCII)
_NAME = re.compile(r"[0-9a-f]{62}(?P<suffix>\.mucc)?(?P<temporary>\.[0-9a-f.]+\.tmp)?")
_LOCK = re.compile(r"[a-z]+-[0-9a-f]{64}\.mucc|[0-9a-f]{64}")
_OLD_LEVELS = ("requests", "artefacts")
"""The levels of format 1, whose entries had no suffix."""


def parse_size(text: str) -> int | None:
    """Parse a size such as `2G` or `1.5 GiB` (powers of 1024) to bytes; None for other texts and 0."""
    if (match := _SIZE.fullmatch(text)) is None:
        return None
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " ")) or None


class Item(NamedTuple):
    """A file or folder of the cache; `size` is in bytes on disk, `used` the time of the last use in ns."""

    level: str
    path: str
    kind: Literal["entry", "temporary", "old"]
    folder: bool
    size: int
    used: int


def scan(directory: str) -> Iterator[Item]:
    """Yield all files and folders of a cache, but no foreign files.

    This includes unknown levels, which a newer version may have written.
    """
    for level in _directories(directory):
        for shard in _directories(level.path):
            if len(shard.name) != 2:
                continue
            for entry in _listed(shard.path):
                with contextlib.suppress(OSError):
                    if item := _item(level.name, entry):
                        yield item


def _item(level: str, entry: os.DirEntry[str]) -> Item | None:
    if (match := _NAME.fullmatch(entry.name)) is None:
        return None
    if match["suffix"] is None and level not in _OLD_LEVELS:
        return None
    info = entry.stat(follow_symlinks=False)
    folder = stat.S_ISDIR(info.st_mode)
    if not folder and not stat.S_ISREG(info.st_mode):
        return None
    kind = "temporary" if match["temporary"] else "entry" if match["suffix"] else "old"
    size, used = folders.size_and_time(entry.path) if folder else (info.st_size, info.st_mtime_ns)
    return Item(level, entry.path, kind, folder, _blocks(size) * BLOCK, used)


def _listed(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except OSError:
        return []


def _directories(path: str) -> list[os.DirEntry[str]]:
    found: list[os.DirEntry[str]] = []
    for entry in _listed(path):
        with contextlib.suppress(OSError):
            if entry.is_dir():
                found.append(entry)
    return found


def _blocks(size: int) -> int:
    return -(-size // BLOCK)


# Storing within the bound


def put_file(path: str, data: bytes) -> None:
    """Write an entry atomically. Raises OSError, after removing the temporary file."""
    fill_and_rename(*locks.temporary_file(path), path, data)


def make_room(directory: str, bound: int, incoming: int, own: str | None = None) -> None:
    """Evict entries so that `incoming` more bytes stay within the bound; called before an entry is placed.

    `own` is the temporary folder with the new entry, if any. Raises OSError if the cache cannot be written.
    """
    blocks = _blocks(incoming)
    estimate = _add_to_estimate(directory, blocks)
    if estimate is not None and estimate * BLOCK <= bound and not _stale(directory):
        return
    if (lock := locks.wait(_path(directory, "upkeep"), PATIENCE)) is None:
        return
    try:
        # The last holder of the lock may have evicted entries without counting this store.
        if not _stale(directory):
            estimate = _add_to_estimate(directory, blocks)
            if estimate is not None and estimate * BLOCK <= bound:
                return
        _evict(directory, bound, blocks, own)
        os.utime(lock.descriptor)
    finally:
        locks.release(lock, remove=False)


def _path(directory: str, name: str) -> str:
    return os.path.join(directory, "locks", name + SUFFIX)


def _add_to_estimate(directory: str, blocks: int) -> int | None:
    """Add blocks to the estimate, and return it; None if there is no estimate yet."""
    try:
        descriptor = os.open(_path(directory, "usage"), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(descriptor, "ab", buffering=0) as file:
        if os.fstat(descriptor).st_size == 0:  # its creator was killed before setting the length
            return None
        file.write(b"." * blocks)
        return os.fstat(descriptor).st_size


def _stale(directory: str) -> bool:
    """Whether the last scan of the cache is more than a day ago."""
    try:
        return time.time() - os.stat(_path(directory, "upkeep")).st_mtime > DAY
    except FileNotFoundError:
        return True


def _length(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _evict(directory: str, bound: int, incoming: int, own: str | None) -> None:
    """Evict until `incoming` blocks fit: abandoned files, then least recently used entries."""
    usage = _path(directory, "usage")
    before = _length(usage)
    _sweep_locks(directory)
    items = [item for item in scan(directory) if item.path != own and not _sweep_temporary(item)]
    needed = incoming * BLOCK
    total = sum(item.size for item in items) + needed
    # An entry larger than the bound must not evict all others; the next eviction removes it first.
    goal = bound * FILL + (needed if needed > bound else 0)
    order = (item for item in items if item.kind != "temporary")
    for item in sorted(order, key=lambda item: (item.size <= bound, item.used)):
        if total <= goal:
            break
        count(directory, item.level, "evicted")  # before the removal, so that every removal is counted
        if _discard(item):
            total -= item.size
    descriptor = os.open(usage, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        # Blocks that other processes added during the scan may be uncounted, so they stay in the estimate.
        meanwhile = max(os.fstat(descriptor).st_size - before, 0)
        os.ftruncate(descriptor, max(total // BLOCK + meanwhile, 1))
    finally:
        os.close(descriptor)


def _discard(item: Item) -> bool:
    """Remove an item; returns False if that fails."""
    try:
        if not item.folder:
            os.unlink(item.path)
        elif item.kind == "temporary":
            folders.remove(item.path)
        else:
            folders.discard(item.path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _sweep_temporary(item: Item) -> bool:
    """Remove a temporary item whose process has ended; returns whether it is gone."""
    if item.kind != "temporary":
        return False
    try:
        lock = locks.abandoned(item.path, folder=item.folder)
    except OSError:  # there are no locks here: go by the age
        return time.time() - item.used / 1e9 > DAY and _discard(item)
    if lock is None:
        return False
    try:
        return _discard(item)
    finally:
        locks.release(lock, remove=False)


def _sweep_locks(directory: str) -> None:
    """Remove the lock files of processes that were killed."""
    for entry in _listed(os.path.join(directory, "locks")):
        if _LOCK.fullmatch(entry.name):
            with contextlib.suppress(OSError):
                if lock := locks.abandoned(entry.path):
                    locks.release(lock)


# Looking at the whole


@dataclass(frozen=True, slots=True)
class LevelStats:
    """Statistics of a level: entries, their size in bytes on disk, counters since the last clear."""

    entries: int
    size: int
    hits: int
    misses: int
    evicted: int


@dataclass(frozen=True, slots=True)
class Stats:
    """Statistics of a cache. `other` is the size in bytes on disk of files that are no current entries."""

    path: str
    bound: int
    size: int
    other: int
    levels: dict[str, LevelStats]

    @property
    def entries(self) -> int:
        """The number of entries of all levels."""
        return sum(level.entries for level in self.levels.values())


def stats(directory: str, bound: int) -> Stats:
    """Collect the statistics of a cache."""
    entries = dict.fromkeys(LEVELS, 0)
    sizes = dict.fromkeys(LEVELS, 0)
    other = 0
    for item in scan(directory):
        if item.kind == "entry" and item.level in LEVELS:
            entries[item.level] += 1
            sizes[item.level] += item.size
        else:
            other += item.size

    def level(name: str) -> LevelStats:
        hits, misses, evicted = (counted(directory, name, what) for what in ("hits", "misses", "evicted"))
        return LevelStats(entries[name], sizes[name], hits, misses, evicted)

    levels = {name: level(name) for name in LEVELS}
    return Stats(directory, bound, sum(sizes.values()) + other, other, levels)


@dataclass(slots=True)
class Report:
    """The result of verifying all entries: the number of whole ones, and the paths of others.

    `damaged` entries, by level, were removed; `unreadable` ones are left, with the reason.
    """

    whole: int = 0
    damaged: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    unreadable: dict[str, str] = field(default_factory=dict[str, str])


def verify(directory: str) -> Report:
    """Read all entries, and remove damaged ones. Entries of other formats are skipped."""
    report = Report()
    for item in scan(directory):
        if item.kind != "entry":
            continue
        key = os.path.basename(os.path.dirname(item.path)) + os.path.basename(item.path)[:62]
        try:
            whole = _whole_folder(item, key) if item.folder else _whole_file(item, key)
        except OSError as error:
            report.unreadable[item.path] = error.strerror or str(error)
            continue
        if whole:
            report.whole += 1
        elif whole is False:
            report.damaged.setdefault(item.level, []).append(item.path)
            _discard(item)
    return report


def _whole_folder(item: Item, key: str) -> bool | None:
    try:
        if (descriptor := folders.verify(item.path, item.level, key, again=True)) is None:
            return None
    except folders.Damaged:
        return None if _other_format(os.path.join(item.path, folders.CHECKSUM)) else False
    os.close(descriptor)
    return True


def _whole_file(item: Item, key: str) -> bool | None:
    try:
        with open(item.path, "rb", buffering=0) as file:
            if unpack(item.level, key, file.readall()) is not None:
                return True
    except FileNotFoundError:
        return None
    return None if _other_format(item.path) else False


def _other_format(path: str) -> bool:
    """Whether a file was written in another format of entries."""
    name, _, _ = FORMAT.partition(" ")
    try:
        with open(path, "rb") as file:
            match = re.match(rb"%s (\d{1,9}) " % name.encode(), file.read(40))
    except OSError:
        return False
    return match is not None and f"{name} {int(match[1])}" != FORMAT


def clear(directory: str, bound: int) -> Stats:
    """Remove all files of the cache that are not being written, and return the statistics before.

    Foreign files and their directories stay. Raises OSError.
    """
    before = stats(directory, bound)
    if not os.path.isdir(directory):
        return before
    if (lock := locks.wait(_path(directory, "upkeep"), PATIENCE)) is None:
        raise OSError("another process is at work in it")
    failed: list[OSError] = []

    def remove(path: str, how: Callable[[str], None] = os.unlink) -> None:
        try:
            how(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            failed.append(error)

    try:
        for item in scan(directory):
            if item.kind != "temporary":
                remove(item.path, folders.discard if item.folder else os.unlink)
            else:
                _sweep_temporary(item)
        for level in _directories(directory):
            for what in ("hits", "misses", "evicted"):
                remove(os.path.join(level.path, what + SUFFIX))
            if level.name in LEVELS:
                for shard in _directories(level.path):
                    if re.fullmatch("[0-9a-f]{2}", shard.name):
                        _remove_empty(shard.path)
                _remove_empty(level.path)
        for name in ("hits", "misses"):  # the counters of format 1
            if _dots(path := os.path.join(directory, name)):
                remove(path)
        _sweep_locks(directory)
        remove(_path(directory, "usage"))
    finally:
        locks.release(lock)
    _remove_empty(os.path.join(directory, "locks"))
    if failed:
        raise failed[0]
    return before


def _remove_empty(path: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(path)


def _dots(path: str) -> bool:
    """Whether a file has nothing but dots, as counters have."""
    try:
        with open(path, "rb") as file:
            return bool(data := file.read()) and not data.strip(b".")
    except OSError:
        return False
