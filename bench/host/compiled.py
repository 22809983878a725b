"""Keep libraries that g++ compiles in `build`, for later tests and runs.

A library is named by a hash of the compiler, the command, the text and the headers.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from mucc.files.package import INCLUDES

KEPT = Path(__file__).resolve().parents[2] / "build" / "on-host"
KEPT_SECONDS = 86_400.0
"""Seconds for which a file is kept after its last use."""


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


def library(key: Iterable[object], to: Path, build: Callable[[Path], None]) -> Path:
    """Copy a library from the cache of compiled programs to a path; build it first if it is not there.

    `key` is what goes into it besides the headers of the package. `build` compiles it to a path. Each caller
    gets a file of its own, so that the loader gives each its own variables.
    """
    name = hashlib.sha256(repr([contents(*map(Path, INCLUDES)), *key]).encode()).hexdigest()[:32]
    kept = KEPT / "libraries" / f"{name}.so"
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
    for old in KEPT.glob("libraries/*.so"):
        if time.time() - old.stat().st_mtime > KEPT_SECONDS:
            old.unlink(missing_ok=True)
