"""Import a problem file in a child process with limits on time and memory, without importing torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time

from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.process import reaper
from mucc.process.output import Printed, notes
from mucc.process.tree import End, Family, end_strays
from mucc.torch.importer.limits import TORCH_MEMORY
from mucc.torch.importer.request import Answer, Request, Result, error_from_json, parse_problem

TIME_LIMIT = 120.0
"""The time limit of an import in seconds, including importing torch."""


def run(request: Request, time_limit: float = TIME_LIMIT) -> Answer:
    """Run a request in a child process.

    Raises DiagnosticError: the child's errors, MU7001, MU7013 to MU7015.
    """
    parse_problem(request.shown, request.text)  # before torch is loaded, which takes seconds
    with reaper.temporary_folder(tempfile.gettempdir()) as folder, Printed() as printed:
        asked, answered = os.path.join(folder, "request.json"), os.path.join(folder, "answer.json")
        with open(asked, "w", encoding="utf-8") as file:
            json.dump(request.to_json(), file)
        end, status, peak = _execute([asked, answered], folder, printed, time_limit, request.memory)
        said = notes(printed.last_lines())
        if end is End.OVERDUE:
            raise _error(
                "MU7013",
                f"{request.shown} was not imported within {time_limit:g} s and was stopped",
                "--time-limit gives more time",
                notes=said,
            )
        if end is End.CALLED_OFF:
            raise _error(
                "MU7014",
                f"{request.shown} took more than the {request.memory >> 20} MiB of memory that it may",
                "--memory-limit sets the limit",
                notes=said,
            )
        try:
            with open(answered, encoding="utf-8") as file:
                result: Result = json.load(file)
            if "errors" in result:
                raise error_from_json(result["errors"])
            return Answer.from_json(result.get("answer"))
        except (OSError, ValueError):
            raise _crashed(request, status, peak, printed) from None


def _execute(
    arguments: list[str], folder: str, printed: Printed, time_limit: float, memory: int
) -> tuple[End, int, int]:
    """Run the child; how it ended (called off: for its memory), its status, and the peak of its memory."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mucc.torch.importer.child", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=printed.fileno(),
        stderr=printed.fileno(),
        env={**os.environ, "TMPDIR": folder, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        cwd=folder,
        start_new_session=True,
    )
    family = Family(process.pid)
    try:
        reaper.watch(process.pid)
        until = time.monotonic() + time_limit
        while (end := family.wait(min(1.0, max(until - time.monotonic(), 0)), ())) is End.OVERDUE:
            if family.peak > memory + TORCH_MEMORY:
                end = End.CALLED_OFF
                break
            if time.monotonic() >= until:
                break
    finally:
        status, peak = family.end()
        process.returncode = status
        end_strays(f"TMPDIR={folder}")
    return end, status, peak


def _crashed(request: Request, status: int, peak: int, printed: Printed) -> DiagnosticError:
    said, lines = printed.end(), notes(printed.last_lines())
    if "No module named 'torch'" in said:
        return _error("MU7001", "importing from PyTorch needs torch", "pip install torch")
    if status == -9 or "MemoryError" in said or "bad_alloc" in said:
        return _error(
            "MU7014",
            f"{request.shown} needs more memory than there is (it had {peak >> 20} MiB)",
            "--memory-limit sets the limit; see also `--scale-down`",
            notes=lines,
        )
    how = f"signal {-status}" if status < 0 else f"status {status}"
    return _error("MU7015", f"the process that ran {request.shown} ended with {how}", notes=lines)


def _error(code: str, message: str, *helps: str, notes: tuple[str, ...] = ()) -> DiagnosticError:
    return DiagnosticError(Diagnostic(code, message, notes=notes, helps=helps))
