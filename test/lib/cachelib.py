"""What the tests of the cache share."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from mucc.build.cache import Cache, Entry
from mucc.diagnostics import Diagnostic, Severity, Span

WARNING = Diagnostic("MU5201", "spills", Span(1, 3), Severity.WARNING, notes=("n",))
A, B, C = (letter * 64 for letter in "abc")
NAME = "prelude.hpp.gch"


def unused() -> Entry:
    raise AssertionError("must not be made")


def unused_file(path: str) -> None:
    raise AssertionError("must not be made")


def entry_file(cache: Cache, level: str = "artefacts", key: str = A) -> Path:
    return Path(cache.directory, level, key[:2], key[2:] + ".mucc")


def write(data: bytes) -> Callable[[str], None]:
    def make(path: str) -> None:
        Path(path).write_bytes(data)

    return make


def built(cache: Cache, data: bytes = b"gch", key: str = A, *, fresh: bool = False) -> Path:
    """A file that is used in place."""
    path = cache.build_file("headers", key, NAME, write(data), fresh=fresh)
    assert path is not None
    return Path(path)


def files(directory: str | Path) -> list[str]:
    """The files below a directory, relative to it."""
    return sorted(str(p.relative_to(directory)) for p in Path(directory).rglob("*") if p.is_file())


def left_behind(cache: Cache) -> list[str]:
    """Temporary files and locks of keys."""
    return [f for f in files(cache.directory) if f.endswith(".tmp") or "-" in f]


def age(path: Path, seconds: float) -> None:
    """Make a file look as if it had last been used so long ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))
