"""What a cache needs beside finding: storing within the bound, evicting, sweeping, counting, checking.

Only stores load this module. Whether there is room is known without looking through the cache: the length
of the file `locks/usage.mucc` is an estimate of what is stored, in blocks. Every store first makes it
longer by what it is about to write, so a process that is killed leaves an estimate that is too high,
never one that is too low. Once it passes the bound, or is a day old, one process looks at everything,
removes what was left behind and what was unused longest, and sets the length right.
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
"""The unit of room in bytes: a file takes a multiple of this on most disks."""

FILL = 0.9
"""How much of the bound is left full by an eviction, so that the next one is not soon."""

DAY = 86400.0
"""After so many seconds the estimate is set right, and what cannot be locked counts as left behind."""

PATIENCE = 10.0
"""The seconds to wait for another process that makes room, before storing without."""

_SIZE = re.compile(r"\s*(\d{1,15}(?:\.\d*)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE | re.ASCII)
_NAME = re.compile(r"[0-9a-f]{62}(?P<suffix>\.mucc)?(?P<temporary>\.[0-9a-f.]+\.tmp)?")
_LOCK = re.compile(r"[a-z]+-[0-9a-f]{64}\.mucc|[0-9a-f]{64}")
_OLD_LEVELS = ("requests", "artefacts")
"""The levels of format 1, whose entries had no suffix."""


def parse_size(text: str) -> int | None:
    """The bytes that `2G`, `500M` or `1.5 GiB` say, in powers of 1024; None for what is no size above 0."""
    if (match := _SIZE.fullmatch(text)) is None:
        return None
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " ")) or None


class Item(NamedTuple):
    """A file or folder of the cache; `size` in bytes of disk, `used` in ns."""

    level: str
    path: str
    kind: Literal["entry", "temporary", "old"]
    folder: bool
    size: int
    used: int


def scan(directory: str) -> Iterator[Item]:
    """Everything that takes room in a cache, and nothing that is not a cache's.

    Levels that this version does not know are looked at too: a newer one may have written them.
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
    """Put an entry in its place in one step. Raises OSError, and leaves nothing behind when it does."""
    fill_and_rename(*locks.temporary_file(path), path, data)


def make_room(directory: str, bound: int, incoming: int, own: str | None = None) -> None:
    """See to it that `incoming` bytes more stay within the bound; called before they are put in their place.

    `own` is the temporary folder that they are in already, if any. Raises OSError where the cache cannot
    be written.
    """
    blocks = _blocks(incoming)
    estimate = _announce(directory, blocks)
    if estimate is not None and estimate * BLOCK <= bound and not _stale(directory):
        return
    if (lock := locks.wait(_path(directory, "upkeep"), PATIENCE)) is None:
        return
    try:
        # Whoever held the lock may have made room, and not have seen what was announced here.
        if not _stale(directory):
            estimate = _announce(directory, blocks)
            if estimate is not None and estimate * BLOCK <= bound:
                return
        _evict(directory, bound, blocks, own)
        os.utime(lock.descriptor)
    finally:
        locks.release(lock, remove=False)


def _path(directory: str, name: str) -> str:
    return os.path.join(directory, "locks", name + SUFFIX)


def _announce(directory: str, blocks: int) -> int | None:
    """Add to the estimate of what is stored, and return it; None where there is none yet."""
    try:
        descriptor = os.open(_path(directory, "usage"), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(descriptor, "ab", buffering=0) as file:
        if os.fstat(descriptor).st_size == 0:  # whoever made it was killed before it set the length
            return None
        file.write(b"." * blocks)
        return os.fstat(descriptor).st_size


def _stale(directory: str) -> bool:
    """Whether nobody looked at the whole cache for a day."""
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
    """Remove what was left behind, and what was unused longest until `incoming` blocks fit; count anew."""
    usage = _path(directory, "usage")
    before = _length(usage)
    _sweep_locks(directory)
    items = [item for item in scan(directory) if item.path != own and not _swept(item)]
    needed = incoming * BLOCK
    total = sum(item.size for item in items) + needed
    # What is larger than the bound is no reason for all else to go: it goes first itself, the next time.
    goal = bound * FILL + (needed if needed > bound else 0)
    order = (item for item in items if item.kind != "temporary")
    for item in sorted(order, key=lambda item: (item.size <= bound, item.used)):
        if total <= goal:
            break
        count(directory, item.level, "evicted")  # first, so that what is missing was always counted
        if _discard(item):
            total -= item.size
    descriptor = os.open(usage, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        # What others announced meanwhile may not have been seen: it stays on the account.
        meanwhile = max(os.fstat(descriptor).st_size - before, 0)
        os.ftruncate(descriptor, max(total // BLOCK + meanwhile, 1))
    finally:
        os.close(descriptor)


def _discard(item: Item) -> bool:
    """Remove an item; False where that cannot be done."""
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


def _swept(item: Item) -> bool:
    """Remove a temporary item whose process has ended; whether it is gone."""
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
    """One level: entries, their size in bytes of disk, and what was counted since the cache was cleared."""

    entries: int
    size: int
    hits: int
    misses: int
    evicted: int


@dataclass(frozen=True, slots=True)
class Stats:
    """The state of a cache. `other` is what belongs to no entry that can be found now, in bytes of disk."""

    path: str
    bound: int
    size: int
    other: int
    levels: dict[str, LevelStats]

    @property
    def entries(self) -> int:
        """The entries of all levels."""
        return sum(level.entries for level in self.levels.values())


def stats(directory: str, bound: int) -> Stats:
    """How much is stored, and how often it was of use."""
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
    """What a check of all entries found: how many were whole, and the paths of those that were not.

    `damaged` were dropped; `unreadable` are left, with the reason.
    """

    whole: int = 0
    damaged: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    unreadable: dict[str, str] = field(default_factory=dict[str, str])


def verify(directory: str) -> Report:
    """Read every entry, and drop the damaged ones. Those of another format are left alone."""
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
    """Whether a file says that another version of mucc, with another layout of entries, wrote it."""
    name, _, _ = FORMAT.partition(" ")
    try:
        with open(path, "rb") as file:
            match = re.match(rb"%s (\d{1,9}) " % name.encode(), file.read(40))
    except OSError:
        return False
    return match is not None and f"{name} {int(match[1])}" != FORMAT


def clear(directory: str, bound: int) -> Stats:
    """Remove all that is the cache's and nobody is writing just now; what was there.

    Other files stay, and so do the directories that hold them. Raises OSError.
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
                _swept(item)
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
    """Whether a file holds dots and nothing else, as a counter does."""
    try:
        with open(path, "rb") as file:
            return bool(data := file.read()) and not data.strip(b".")
    except OSError:
        return False
