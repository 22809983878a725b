"""Programs become libraries, several at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from mucc.build.artefact import Request, build
from mucc.build.pool import Pool
from mucc.diagnostics.core import DiagnosticError
from mucc.files.atomic import replace_file


class Limits(Protocol):
    """What a library is built for, how many jobs run at once, and seconds for a program."""

    @property
    def target(self) -> str: ...
    @property
    def jobs(self) -> int: ...
    @property
    def time_limit(self) -> float: ...


def build_all(programs: Sequence[Path], options: Limits) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Build the library beside each program, in their order, in as many jobs as memory allows."""
    with Pool(cores=options.jobs) as pool:

        def make(path: Path) -> bool:
            request = Request(path.read_bytes(), str(path), "so", options.target, timeout=options.time_limit)
            artefact = build(request, pool=pool)
            replace_file(str(path.with_suffix(".so")), artefact.data, 0o777)
            return artefact.cached

        outcomes = pool.map(make, programs, str)
        for path, outcome in zip(programs, outcomes, strict=True):
            if isinstance(outcome.error, DiagnosticError):
                yield path, {"built": False, "error": str(outcome.error)[:300]}
            elif isinstance(outcome.error, Exception):
                text = f"{type(outcome.error).__name__}: {outcome.error}"
                yield path, {"built": False, "error": text[:300]}
            else:
                yield path, {"built": True, "cached": outcome.get()}
