"""The content-addressed cache of builds.

It has several levels (`LEVELS`), so that a repeated command costs a few file operations, and a changed
program rebuilds only what changed. An entry is one file: a line with the checksum of the rest, a line of JSON
or an empty line, then the bytes. It is renamed into place, so a reader sees a whole entry or none; damaged
entries are dropped and built again. Entries that are used as files on disk are folders instead (`folders`).
Readers never wait.

A cache hit loads this module and `keys` only; `upkeep` and `locks` are loaded for storing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from mucc.build.cache.entries import LEVELS, SUFFIX, Entry, count, entry_path, pack, unpack
from mucc.build.cache.keys import artefact_key, content_key, makers_key, request_key
from mucc.diagnostics.core import Diagnostic, Severity
from mucc.files.digest import digest, tree_contents
from mucc.files.user_folders import cache_folder

if TYPE_CHECKING:
    from mucc.build.cache.upkeep import Report, Stats

__all__ = [
    "LEVELS",
    "Cache",
    "Entry",
    "artefact_key",
    "content_key",
    "default_directory",
    "digest",
    "makers_key",
    "request_key",
    "tree_contents",
]

DEFAULT_BOUND = 4 << 30
"""The default bound of a cache in bytes, without MUCC_CACHE_SIZE."""

MAKERS = 8
"""The most toolchains that an entry of `makers` lists."""


def default_directory() -> str:
    """Return MUCC_CACHE_DIR, or `mucc` in the user's cache directory."""
    if explicit := os.environ.get("MUCC_CACHE_DIR"):
        return os.path.abspath(explicit)
    return cache_folder()


def shared_directories() -> tuple[str, ...]:
    """Return the directories of MUCC_CACHE_SHARED, caches that are only read."""
    names = os.environ.get("MUCC_CACHE_SHARED", "").split(os.pathsep)
    return tuple(os.path.abspath(name) for name in names if name)


class Cache:
    """A cache in a directory, which is created when the first entry is stored.

    `bound` is in bytes, by default MUCC_CACHE_SIZE. `shared` are directories to read after `directory`. If
    the cache cannot be used, only `stats`, `clear` and `verify` raise; other methods add a diagnostic to
    `problems`, once for each cause. Thread-safe.
    """

    patience = 900.0
    """The seconds to wait for another process that builds the same entry, before building it here too."""

    def __init__(
        self, directory: str | None = None, *, bound: int | None = None, shared: tuple[str, ...] | None = None
    ):
        self.directory = directory or default_directory()
        self.shared = shared_directories() if shared is None else shared
        self.problems: list[Diagnostic] = []
        self._bound = bound

    @cached_property
    def bound(self) -> int:
        """The most bytes that the cache may take."""
        text = os.environ.get("MUCC_CACHE_SIZE")
        if self._bound is not None:
            return self._bound
        if not text:
            return DEFAULT_BOUND
        from mucc.build.cache.upkeep import parse_size

        if (bound := parse_size(text)) is None:
            message = f"MUCC_CACHE_SIZE says '{text}', which is no size above 0; the cache may hold 4 GiB"
            self._warn("MU5205", message, "write a number and a unit, such as 500M or 2G")
        return bound or DEFAULT_BOUND

    # Entries

    def find(self, level: str, key: str) -> Entry | None:
        """Return the entry of a key, or None."""
        if (entry := self._look(level, key)) is not None:
            count(self.directory, level, "hits")
        return entry

    def store(self, level: str, key: str, entry: Entry) -> None:
        """Store an entry, unless it is larger than the bound."""
        path, data = entry_path(self.directory, level, key), pack(level, key, entry)
        if len(data) > self.bound:
            message = f"an entry of {len(data)} bytes is larger than the cache may be, so it is not kept"
            self._warn_once("MU5205", message, "set MUCC_CACHE_SIZE to more")
            return
        from mucc.build.cache import upkeep

        with self._storing():
            upkeep.make_room(self.directory, self.bound, len(data))
            upkeep.put_file(path, data)
        count(self.directory, level, "misses")

    def build(
        self,
        level: str,
        key: str,
        make: Callable[[], Entry],
        *,
        fresh: bool = False,
        waiting: Callable[[], None] | None = None,
    ) -> Entry:
        """Return the entry of a key; built by `make` if there is none, or always if `fresh`.

        Of several processes that need the same key, one builds it and the others wait (`waiting` is called
        before a wait). `make` may build entries of other levels.
        """
        if not fresh and (entry := self.find(level, key)) is not None:
            return entry
        with self._lock(level, key, waiting):
            if not fresh and (entry := self.find(level, key)) is not None:
                return entry
            entry = make()
            self.store(level, key, entry)
            return entry

    def find_request(self, key: str) -> Entry | None:
        """Return the artefact of an equal earlier request, with the warnings of both; or None."""
        if (request := self._look("requests", key)) is None:
            return None
        if (artefact := self._look("artefacts", request.data.decode())) is None:
            return None
        count(self.directory, "requests", "hits")
        count(self.directory, "artefacts", "hits")
        return artefact._replace(warnings=request.warnings + artefact.warnings)

    def store_request(self, key: str, artefact: str, warnings: tuple[Diagnostic, ...]) -> None:
        """Store the key of a request's artefact, and the frontend's warnings."""
        self.store("requests", key, Entry(artefact.encode(), warnings))

    def find_made(self, key: str, present: Sequence[str | None]) -> Entry | None:
        """Return the latest artefact built by a toolchain that matches the present tools; or None.

        `present` are the versions of the tools, None for a missing tool, which matches any version.
        """
        for versions, artefact in self._makers(key):
            fits = zip(versions, present, strict=True)
            if all(now is None or now == then for then, now in fits) and (
                entry := self.find("artefacts", artefact)
            ):
                return entry
        return None

    def add_maker(self, key: str, versions: Sequence[str], artefact: str) -> None:
        """Store that the toolchain of these versions built an artefact, as the latest of `makers`."""
        known = self._makers(key)
        latest = (tuple(versions), artefact)
        if known[:1] != [latest]:
            import json

            makers = [latest, *(maker for maker in known if maker != latest)][:MAKERS]
            self.store("makers", key, Entry(json.dumps(makers).encode()))

    def _makers(self, key: str) -> list[tuple[tuple[str, ...], str]]:
        """Return the versions of toolchains and the keys of their artefacts, the latest first."""
        if (entry := self._look("makers", key)) is None:
            return []
        import json

        return [(tuple(versions), artefact) for versions, artefact in json.loads(entry.data)]

    # Files that are used in place

    def find_file(self, level: str, key: str, name: str) -> str | None:
        """Return the path of a file that `build_file` built; or None."""
        from mucc.build.cache import folders

        for directory in (self.directory, *self.shared):
            folder = entry_path(directory, level, key)
            own = directory == self.directory
            with self._reading(directory):
                try:
                    if (checksum := folders.verify(folder, level, key)) is None:
                        continue
                except folders.Damaged:
                    self._damaged(folder, own)
                    if own:
                        folders.discard(folder)
                    continue
                if own:
                    _touch(checksum)
                os.close(checksum)
                if os.path.exists(path := os.path.join(folder, name)):
                    count(self.directory, level, "hits")
                    return path
        return None

    def build_file(
        self,
        level: str,
        key: str,
        name: str,
        make: Callable[[str], None],
        *,
        fresh: bool = False,
        waiting: Callable[[], None] | None = None,
    ) -> str | None:
        """Return the path of the file `name` of a key; None if the cache cannot store it.

        If there is none, or always if `fresh`, `make` is called with a path that ends in `name` in a new
        folder; it writes the file, and possibly others in the same folder, but no subfolders. The file may be
        evicted at any time, so callers must handle its absence.
        """
        from mucc.build.cache import folders, upkeep

        if not fresh and (path := self.find_file(level, key, name)) is not None:
            return path
        with self._lock(level, key, waiting):
            if not fresh and (path := self.find_file(level, key, name)) is not None:
                return path
            path = entry_path(self.directory, level, key)
            try:
                folder = folders.NewFolder(path)
            except OSError as error:
                self._unusable(error)
                return None
            stored = False
            try:
                make(os.path.join(folder.temporary, name))
                with self._storing():
                    size = folder.close(level, key)
                    upkeep.make_room(self.directory, self.bound, size, folder.temporary)
                    folder.place()
                    stored = True
            finally:
                folder.leave()
            count(self.directory, level, "misses")
            return os.path.join(path, name) if stored else None

    # The whole

    def stats(self) -> Stats:
        """Return sizes and hit counts. Raises OSError."""
        from mucc.build.cache import upkeep

        self._check_folder()
        return upkeep.stats(self.directory, self.bound)

    def clear(self) -> Stats:
        """Remove all entries, and return the statistics before. Raises OSError."""
        from mucc.build.cache import upkeep

        self._check_folder()
        return upkeep.clear(self.directory, self.bound)

    def verify(self) -> Report:
        """Check all entries, and remove damaged ones. Raises OSError."""
        from mucc.build.cache import upkeep

        self._check_folder()
        return upkeep.verify(self.directory)

    # What is shared by the above

    def _check_folder(self) -> None:
        """Raise OSError if the directory cannot be opened; a missing directory is an empty cache."""
        with contextlib.suppress(FileNotFoundError):
            os.close(os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def _look(self, level: str, key: str) -> Entry | None:
        """Return an entry of this directory, or else of a shared one, without counting a hit."""
        for directory in (self.directory, *self.shared):
            path = entry_path(directory, level, key)
            own = directory == self.directory
            with self._reading(directory), open(path, "rb", buffering=0) as file:
                if (entry := unpack(level, key, file.readall())) is not None:
                    if own:
                        _touch(file.fileno())
                    return entry
                self._damaged(path, own)
                if own and os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                    os.unlink(path)
        return None

    @contextlib.contextmanager
    def _reading(self, directory: str) -> Generator[None]:
        try:
            yield
        except FileNotFoundError:
            pass
        except OSError as error:
            if directory == self.directory and isinstance(error, NotADirectoryError):
                self._no_folder()
            elif directory == self.directory:
                message = f"the cache cannot be read: {error}"
                self._warn_once("MU5203", message, "`mucc cache clear` makes a new one")
            else:
                self._warn_once("MU5206", f"a shared cache cannot be read: {error}")

    @contextlib.contextmanager
    def _storing(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            self._unusable(error)

    @contextlib.contextmanager
    def _lock(self, level: str, key: str, waiting: Callable[[], None] | None) -> Generator[None]:
        """Hold the lock of a key if possible, so that no other process builds the same entry."""
        from mucc.build.cache import locks

        for directory in self.shared:
            if not os.path.isdir(directory):
                self._warn_once("MU5206", f"MUCC_CACHE_SHARED names '{directory}', which is no directory")
        path = os.path.join(self.directory, "locks", f"{level}-{key}{SUFFIX}")
        lock, held = None, False
        with self._storing():
            lock = locks.take(path)
            held = lock is None
        if held:
            if waiting is not None:
                waiting()
            with self._storing():
                lock = locks.wait(path, self.patience)
        try:
            yield
        finally:
            if lock is not None:
                locks.release(lock)

    def _warn(self, code: str, message: str, *helps: str) -> None:
        if all(p.message != message for p in self.problems):
            self.problems.append(Diagnostic(code, message, severity=Severity.WARNING, helps=helps))

    def _warn_once(self, code: str, message: str, *helps: str) -> None:
        if all(p.code != code for p in self.problems):
            self._warn(code, message, *helps)

    def _damaged(self, path: str, own: bool) -> None:
        what = "was dropped; it is made again" if own else "of a shared cache was passed over"
        self._warn("MU5204", f"a damaged cache entry {what} ({path})")

    def _no_folder(self) -> None:
        message = f"'{self.directory}' cannot hold a cache, so nothing is kept: part of the path is a file"
        self._warn_once("MU5203", message, "set MUCC_CACHE_DIR to a directory, or remove that file")

    def _unusable(self, error: OSError) -> None:
        import errno

        if isinstance(error, NotADirectoryError | FileExistsError):
            self._no_folder()
            return
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        self._warn_once(
            "MU5203",
            f"the cache cannot be written, so nothing is kept: {error.strerror or error}",
            "free some space on that disk, or set MUCC_CACHE_SIZE to keep less"
            if full
            else "set MUCC_CACHE_DIR to a directory that can be written, or use --no-cache",
        )


def _touch(descriptor: int) -> None:
    """Set the time of an entry's last use, if the cache can be written."""
    with contextlib.suppress(OSError):
        os.utime(descriptor)
