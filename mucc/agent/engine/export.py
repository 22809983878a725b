"""Write the files of a task into a folder in which its driver works."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

from mucc.agent.core.attempts import Attempt
from mucc.agent.core.evaluator import Evaluator
from mucc.agent.core.tasks import DRIVER_FILE, PROBLEM_FILE, PROGRAM_FILE, Task
from mucc.agent.engine.documents import task_folder
from mucc.api.files import replace_file


def problem(folder: str, task: Task) -> None:
    """Write the problem file as it was when the run began, the driver, and the program as imported."""
    into = task_folder(folder, task.key)
    _write(into, PROBLEM_FILE, task.text)
    _write(into, DRIVER_FILE, task.imported.driver)
    _write(into, "imported.mcu", task.imported.program)


def best(folder: str, task: Task, attempt: Attempt, evaluator: Evaluator) -> None:
    """Write the best program, and its library if there is one; the driver loads a library newer than the
    program."""
    into = task_folder(folder, task.key)
    program = os.path.join(into, PROGRAM_FILE)
    _write(into, PROGRAM_FILE, attempt.candidate.program)
    library = f"{os.path.splitext(program)[0]}.so"
    built = evaluator.library(task, attempt.candidate)
    with suppress(OSError):
        os.unlink(library)
    if built is not None:
        with suppress(OSError):
            shutil.copyfile(built, f"{library}.part")
            os.replace(f"{library}.part", library)


def _write(folder: str, name: str, text: str) -> None:
    path = os.path.join(folder, name)
    with suppress(OSError), open(path, encoding="utf-8") as file:
        if file.read() == text:
            return
    replace_file(path, text.encode())
