"""Keep libraries that g++ compiles in `build`, for later tests and runs.

A library is named by a hash of the compiler, the command, the text and the headers that it includes.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from mucc.files.package import INCLUDES

KEPT = Path(__file__).resolve().parents[2] / "build" / "on-host"
LIBRARIES = KEPT / "libraries"
KEPT_SECONDS = 86_400.0
"""Seconds for which a file is kept after its last use."""


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


@cache
def version(gxx: str) -> str:
    """Return the version that a compiler prints."""
    return subprocess.run([gxx, "--version"], capture_output=True, text=True, check=True).stdout


@cache
def contents(*folders: Path) -> str:
    """Return a hash of all headers in some folders, and in those below."""
    key = hashlib.sha256()
    for path in sorted(p for folder in folders for p in folder.rglob("*.*h") if p.is_file()):
        key.update(path.read_bytes())
    return key.hexdigest()


def included(text: str, folders: Iterable[Path]) -> str:
    """Return a hash of the headers of some folders that a text includes, and of those that these include."""
    places = tuple(folders)
    read: dict[Path, bytes] = {}
    left = _names(text, None)
    while left:
        name, beside = left.pop()
        found = next((p for folder in (*beside, *places) if (p := folder / name).is_file()), None)
        if found is not None and found not in read:
            read[found] = found.read_bytes()
            left += _names(read[found].decode(), found.parent)
    return hashlib.sha256(repr(sorted((p.name, data) for p, data in read.items())).encode()).hexdigest()


def _names(text: str, folder: Path | None) -> list[tuple[str, tuple[Path, ...]]]:
    """Return what a text includes, whatever the conditions, with the folder where it is looked for first."""
    return [(name, (folder,) if mark == '"' and folder else ()) for mark, name in _INCLUDE.findall(text)]


def library(
    key: Iterable[object], to: Path, build: Callable[[Path], None], headers: str | None = None
) -> Path:
    """Copy a library from the cache of compiled programs to a path; build it first if it is not there.

    `key` is what goes into it besides headers, of which `headers` is a hash; without it all headers of the
    package do. `build` compiles it to a path. Each caller gets a file of its own, so that the loader gives
    each its own variables.
    """
    headers = contents(*map(Path, INCLUDES)) if headers is None else headers
    name = hashlib.sha256(repr([headers, *key]).encode()).hexdigest()[:32]
    kept = LIBRARIES / f"{name}.so"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        made = kept.with_name(f"{os.getpid()}-{kept.name}")
        build(made)
        made.rename(kept)
        _drop_old()
    os.utime(kept)
    shutil.copyfile(kept, to)
    return to


@cache
def _drop_old() -> None:
    """Remove files that no run has used for KEPT_SECONDS, once in a process."""
    for old in LIBRARIES.glob("*.so"):
        if time.time() - old.stat().st_mtime > KEPT_SECONDS:
            old.unlink(missing_ok=True)
