"""Problem files: find them, name them, identify their contents."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mucc.api.diagnostics import Diagnostic, DiagnosticError


@dataclass(frozen=True)
class Problem:
    """A problem file. Its group is the folder that it lies in: `level2`, `gemm`."""

    path: Path

    @property
    def group(self) -> str:
        return self.path.resolve().parent.name

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def key(self) -> str:
        """The name in rows of tables."""
        return f"{self.group}/{self.name}"

    @property
    def number(self) -> int | None:
        """The number that its name starts with."""
        found = re.match(r"\d+", self.name)
        return int(found[0]) if found else None

    def digest(self) -> str:
        """Return a hash of the contents. Raises OSError."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()[:16]


def find_problems(paths: Iterable[str], only: str = "") -> list[Problem]:
    """Return the problem files of folders, by their numbers, and those named one by one.

    `only` is a regular expression that keys (`level2/76_Gemm_Add_ReLU`) have to match somewhere. Raises
    DiagnosticError MU5010 for what is not there, or where nothing is left; MU5001 for two files of one key.
    """
    found: dict[Path, Problem] = {}
    for name in paths:
        path = Path(name)
        if not path.exists():
            raise _error("MU5010", f"there is no '{name}'")
        inside = sorted(path.glob("*.py"), key=_place) if path.is_dir() else [path]
        for file in inside:
            problem = Problem(file)
            if re.search(only, problem.key):
                found.setdefault(file.resolve(), problem)
    keys: dict[str, Problem] = {}
    for problem in found.values():
        if (other := keys.setdefault(problem.key, problem)) is not problem:
            raise _error("MU5001", f"'{other.path}' and '{problem.path}' would both be {problem.key}")
    if not found:
        raise _error("MU5010", "no problem file is left", "folders hold files that end in .py")
    return list(found.values())


def _place(path: Path) -> tuple[int, str]:
    return Problem(path).number or 0, path.name


def _error(code: str, message: str, *helps: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(code, message, helps=helps))
