"""The cache of compiled kernels, found by content.

Two levels, so that a repeated command costs a few file operations:

* a *request* is the text of a program, the flags, this mucc, and the toolchain. It answers "this was
  asked before" without importing the compiler; its fingerprints of mucc and of the toolchain are
  file sizes and times, for speed.
* an *artefact* is what nvcc made. Its key holds what decides the result and nothing else: canonical
  IR, emitted C++ and support headers, flags, versions of the compilers and headers; no paths or times.
  A program that was moved, renamed, reformatted or commented finds its artefact.

An entry is one file: a JSON line with the checksum of what follows, then the bytes. It is put in
place by a rename, so a reader sees a whole entry or none; a damaged one is dropped and made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from mucc.atomic import replace_file
from mucc.diagnostics.core import Diagnostic, Severity
from mucc.version import __version__

FORMAT = "mucc-cache 1"
"""Changes when the layout of entries does."""

PACKAGE = os.path.dirname(os.path.abspath(__file__))


def default_directory() -> str:
    """MUCC_CACHE_DIR, or `mucc` in the user's cache directory."""
    if explicit := os.environ.get("MUCC_CACHE_DIR"):
        return os.path.abspath(explicit)
    home = os.path.expanduser("~")
    if sys.platform == "darwin":
        base = os.path.join(home, "Library", "Caches")
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    return os.path.join(base, "mucc")


def digest(*parts: str | bytes) -> str:
    """A hash of a sequence of texts; where one ends and the next begins counts."""
    state = hashlib.sha256(FORMAT.encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(b"%d:" % len(data))
        state.update(data)
    return state.hexdigest()


def request_key(source: bytes, flags: tuple[str, ...], toolchain: tuple[str, ...]) -> str:
    """The key of a request. `toolchain` is `Toolchain.fingerprint()`."""
    return digest("request", __version__, package_fingerprint(), repr(flags), repr(toolchain), source)


def package_fingerprint() -> str:
    """Changes when a file of the installed mucc does; made from names, sizes and times."""
    return digest(*(f"{path} {size} {time}" for path, size, time in sorted(_package_files(PACKAGE))))


def _package_files(directory: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name == "__pycache__" or entry.name.startswith("."):
                continue
            if entry.is_dir():
                yield from _package_files(entry.path)
            else:
                info = entry.stat()
                yield entry.path, info.st_size, info.st_mtime_ns


_COMMENT = re.compile(r"^[ \t]*//.*\n|^[ \t]*\n", re.MULTILINE)
_PROVENANCE = re.compile(r'"(source|source_hash)": *"[^"]*"')


def artefact_key(ir: str, code: str, flags: tuple[str, ...], versions: tuple[str, ...], headers: str) -> str:
    """The key of an artefact.

    `ir` is the canonical IR, `code` the emitted C++, `headers` the directory of mucc's own headers. Comment
    lines of the code and the file name in its manifest do not count: an artefact's manifest names
    the text that it was first made from.
    """
    ir, code = (_PROVENANCE.sub(r'"\1": ""', text) for text in (ir, _COMMENT.sub("", code)))
    contents: list[str | bytes] = []
    for path, _, _ in sorted(_package_files(headers)):
        with open(path, "rb") as file:
            contents += [os.path.relpath(path, headers), file.read()]
    return digest("artefact", __version__, ir, code, repr(flags), repr(versions), *contents)


class Entry(NamedTuple):
    """What was found in the cache: the artefact, and the warnings of the build that made it."""

    data: bytes
    warnings: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class Stats:
    """The state of a cache. `size` in bytes; hits and misses since it was last cleared."""

    path: str
    entries: int
    size: int
    hits: int
    misses: int


class Cache:
    """A cache in a directory, which is made when something is first stored.

    No method raises for a cache that cannot be used; `problems` says what went wrong, once each.
    """

    def __init__(self, directory: str | None = None):
        self.directory = directory or default_directory()
        self.problems: list[Diagnostic] = []

    def _path(self, level: str, key: str) -> str:
        return os.path.join(self.directory, level, key[:2], key[2:])

    def _warn(self, code: str, message: str, *helps: str) -> None:
        if all(p.code != code for p in self.problems):
            self.problems.append(Diagnostic(code, message, severity=Severity.WARNING, helps=helps))

    def _read(self, level: str, key: str) -> tuple[dict[str, Any], bytes] | None:
        """The header and the bytes of an entry; None where there is none or it is damaged."""
        path = self._path(level, key)
        try:
            with open(path, "rb") as file:
                header, data = file.readline(), file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn("MU5203", f"the cache cannot be read: {error}", "`mucc cache clear` makes a new one")
            return None
        fields = _fields(header)
        if fields.get("sha256") != hashlib.sha256(data).hexdigest():
            self._warn("MU5204", f"a damaged cache entry was dropped; it is made again ({path})")
            with contextlib.suppress(OSError):
                os.unlink(path)
            return None
        return fields, data

    def _write(self, level: str, key: str, data: bytes, **fields: object) -> None:
        path = self._path(level, key)
        header = json.dumps({"sha256": hashlib.sha256(data).hexdigest(), **fields})
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            replace_file(path, header.encode() + b"\n" + data)
        except OSError as error:
            self._unusable(error)

    def _unusable(self, error: OSError) -> None:
        self._warn(
            "MU5203",
            f"the cache cannot be written, so nothing is kept: {error}",
            "set MUCC_CACHE_DIR to a directory that can be written, or use --no-cache",
        )

    def _count(self, what: str) -> None:
        """Count by appending a byte: safe with several processes, and no file is ever rewritten."""
        with contextlib.suppress(OSError), open(os.path.join(self.directory, what), "ab") as file:
            file.write(b".")

    def _counted(self, what: str) -> int:
        try:
            return os.path.getsize(os.path.join(self.directory, what))
        except OSError:
            return 0

    def find_request(self, key: str) -> Entry | None:
        """What an equal request got before."""
        if (request := self._read("requests", key)) is None:
            return None
        fields, _ = request
        return self.find(str(fields.get("artefact")), _diagnostics(fields.get("warnings")))

    def store_request(self, key: str, artefact: str, warnings: tuple[Diagnostic, ...]) -> None:
        """Remember which artefact answers a request, and the frontend's warnings about its text."""
        self._write("requests", key, b"", artefact=artefact, warnings=_plain(warnings))

    def find(self, key: str, warnings: tuple[Diagnostic, ...] = ()) -> Entry | None:
        """The artefact of this key, with `warnings` before its own."""
        if (found := self._read("artefacts", key)) is None:
            return None
        fields, data = found
        self._count("hits")
        return Entry(data, warnings + _diagnostics(fields.get("warnings")))

    def build(
        self,
        key: str,
        make: Callable[[], Entry],
        *,
        fresh: bool = False,
        waiting: Callable[[], None] | None = None,
    ) -> Entry:
        """The artefact of this key, made by `make` where there is none yet, or always if `fresh`.

        Of several processes that want the same key, one makes it and the others wait for it
        (`waiting` is called first when there is a wait).
        """
        with self._lock(key, waiting):
            if not fresh and (entry := self.find(key)) is not None:
                return entry
            entry = make()
            self._write("artefacts", key, entry.data, warnings=_plain(entry.warnings))
            self._count("misses")
            return entry

    @contextlib.contextmanager
    def _lock(self, key: str, waiting: Callable[[], None] | None) -> Generator[None]:
        from filelock import FileLock, Timeout

        directory = os.path.join(self.directory, "locks")
        with contextlib.ExitStack() as stack:
            try:
                os.makedirs(directory, exist_ok=True)
                lock = FileLock(os.path.join(directory, key))
                try:
                    stack.enter_context(lock.acquire(timeout=0))
                except Timeout:
                    if waiting is not None:
                        waiting()
                    stack.enter_context(lock.acquire())
            except (OSError, NotImplementedError) as error:
                # Without a lock two processes may make the same thing; the renames keep both right.
                self._unusable(error if isinstance(error, OSError) else OSError("no file locks here"))
            yield

    def stats(self) -> Stats:
        """How much is stored, and how often it was of use."""
        sizes = [info.st_size for info in self._entries("artefacts")]
        total = sum(sizes) + sum(info.st_size for info in self._entries("requests"))
        return Stats(self.directory, len(sizes), total, self._counted("hits"), self._counted("misses"))

    def _entries(self, level: str) -> Iterator[os.stat_result]:
        for directory, _, names in os.walk(os.path.join(self.directory, level)):
            for name in names:
                with contextlib.suppress(OSError):
                    yield os.stat(os.path.join(directory, name))

    def clear(self) -> Stats:
        """Remove everything that is stored, and return what was there. Raises OSError."""
        before = self.stats()
        for level in ("requests", "artefacts"):
            if os.path.isdir(directory := os.path.join(self.directory, level)):
                shutil.rmtree(directory)
        for counter in ("hits", "misses"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.directory, counter))
        return before


def _fields(header: bytes) -> dict[str, Any]:
    """The header of an entry; empty where it is damaged."""
    try:
        fields = json.loads(header)
    except ValueError:
        return {}
    return cast(dict[str, Any], fields) if isinstance(fields, dict) else {}


def _plain(warnings: tuple[Diagnostic, ...]) -> list[dict[str, object]]:
    """Diagnostics as JSON values that `_diagnostics` reads again, without their sources."""
    from mucc.diagnostics.render import to_json

    return [to_json(w) for w in warnings]


def _diagnostics(values: list[dict[str, Any]] | None) -> tuple[Diagnostic, ...]:
    if not values:
        return ()
    from mucc.diagnostics.render import from_json

    return tuple(from_json(v) for v in values)
