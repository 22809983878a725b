"""Build the libraries of candidates, several at once, through mucc's cache."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass, field

from mucc.agent.core.attempts import Candidate, Status
from mucc.agent.core.tasks import PROGRAM_FILE, Task
from mucc.agent.evaluate.settings import Settings
from mucc.api.build import Cancelled, Pool, Request, build
from mucc.api.diagnostics import Diagnostic, DiagnosticError, Source, internal_error, to_json
from mucc.api.files import decode, replace_file
from mucc.api.json_types import DiagnosticJson, Json

MACHINE = {"MU5101", "MU5102", "MU5103", "MU5104", "MU5105", "MU5107", "MU5109"}
"""Errors of builds whose cause is the machine: no compiler, no headers, no room on the disk."""

COMPILER = "MU51"
"""The prefix of codes of compiler errors; other errors are mucc's, about the program."""


@dataclass(frozen=True, slots=True)
class Built:
    """The result of a build: a library, or a status that says why there is none."""

    library: str | None = None
    status: Status = Status.GOOD
    reason: str = ""
    diagnostics: list[DiagnosticJson] = field(default_factory=list[DiagnosticJson])
    facts: Json = field(default_factory=Json)
    seconds: float = 0.0


class Builder:
    """Builds candidates in a pool; libraries stay in a folder."""

    def __init__(self, pool: Pool, folder: str, settings: Settings):
        self.pool, self.folder, self.settings = pool, folder, settings

    def path(self, task: Task, candidate: Candidate) -> str:
        """Return the path of a candidate's library."""
        name = hashlib.sha256(f"{task.target}\n{candidate.program}".encode()).hexdigest()[:32]
        return os.path.join(self.folder, f"{name}.so")

    def build(self, task: Task, candidate: Candidate) -> Built:
        """Check a candidate and build its library. Raises DiagnosticError where the machine is at fault."""
        started = time.monotonic()
        data = candidate.program.encode()
        request = Request(data, PROGRAM_FILE, "so", task.target, timeout=self.settings.build_seconds)
        try:
            made = build(request, pool=self.pool)
        except DiagnosticError as error:
            return self._failed(error, _source(data), time.monotonic() - started)
        except Cancelled:
            raise
        except Exception as error:  # a defect of mucc that this program shows
            defect = internal_error(error, verbose=False)
            return self._failed(DiagnosticError(defect), None, time.monotonic() - started)
        path = self.path(task, candidate)
        try:
            replace_file(path, made.data, 0o777)
        except OSError as error:
            raise DiagnosticError(
                Diagnostic("MU7203", f"{path} cannot be written: {error.strerror}")
            ) from None
        source = _source(data)
        facts: Json = {"library": path, "cached": made.cached, "library_bytes": len(made.data)}
        if warnings := sorted({d.code for d in made.warnings}):
            facts["warnings"] = warnings  # MU5201: registers are spilled; MU5202: ptxas undid an optimisation
        said = [to_json(d, source) for d in made.warnings]
        return Built(path, diagnostics=said, facts=facts, seconds=time.monotonic() - started)

    @staticmethod
    def _failed(error: DiagnosticError, source: Source | None, seconds: float) -> Built:
        codes = [d.code for d in error.diagnostics]
        if MACHINE & {*codes}:
            raise error
        status = Status.UNBUILT if any(c.startswith(COMPILER) for c in codes) else Status.INVALID
        said = [to_json(d, source) for d in error.diagnostics]
        first = error.diagnostics[0]
        return Built(None, status, f"{first.code}: {first.message}", said, seconds=seconds)


def _source(data: bytes) -> Source | None:
    try:
        return decode(data, PROGRAM_FILE)
    except DiagnosticError:
        return None
