"""Write the files that a candidate needs to run into a folder."""

from __future__ import annotations

import os
import shutil

from mucc.agent.core.tasks import DRIVER_FILE, PROBLEM_FILE, PROGRAM_FILE, Task
from mucc.api.diagnostics import Diagnostic, DiagnosticError
from mucc.api.importer import Request


def lay_out(folder: str, task: Task, program: str, library: str | None) -> str:
    """Put a task's problem and driver into a folder, and a candidate's program and library; the driver's
    path. Raises DiagnosticError (MU7203) where that cannot be."""
    try:
        return _laid_out(folder, task, program, library)
    except OSError as error:
        message = f"{folder} cannot be written: {error.strerror}"
        raise DiagnosticError(Diagnostic("MU7203", message)) from None


def _laid_out(folder: str, task: Task, program: str, library: str | None) -> str:
    texts = {PROBLEM_FILE: task.text, DRIVER_FILE: task.imported.driver, PROGRAM_FILE: program}
    for name, text in texts.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    if library:
        source = os.path.join(folder, PROGRAM_FILE)
        built = f"{os.path.splitext(source)[0]}.so"
        shutil.copyfile(library, built)
        newer = os.stat(source).st_mtime + 1  # a driver takes no library that is older than its program
        os.utime(built, (newer, newer))
    return os.path.join(folder, DRIVER_FILE)


def request_of(task: Task, folder: str) -> Request:
    """Return the request by which children load the problem of a task from a folder; messages use the user's
    path.
    """
    path = os.path.join(folder, PROBLEM_FILE)
    return Request(path, task.path, task.text, task.imported.name, "", "")
