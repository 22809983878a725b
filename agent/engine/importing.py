"""Problem files become tasks, in a process that has loaded torch so that this one need not."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from mucc import guard
from mucc.agent.audit.bound import lowest
from mucc.agent.core.codec import from_json
from mucc.agent.core.tasks import Imported, Task
from mucc.agent.engine.problems import Problem
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.frontend.torch_import.request import kernel_name

SECONDS = 300.0
"""That the import of one problem may take."""

MEMORY = 8 << 30
"""Bytes of main memory that it may take beside torch."""


def import_all(
    problems: Sequence[Problem], precision: str, card: str, target: str, jobs: int
) -> Iterator[Task]:
    """The task of each problem file, as they are done; side by side in as many processes as `jobs`.

    What cannot be imported has the diagnostic in `imported.error`. Raises DiagnosticError: MU5010 to MU5013
    for files that cannot be read, MU7001 without torch, MU7212 where the process of the imports ends.
    """
    from mucc.cli import files

    shared = {"precision": precision, "card": card, "target": target}
    asked = [{"path": str(p.path), "text": files.read_source(str(p.path)).text, **shared} for p in problems]
    for number, answer in _answers(asked, jobs):
        problem, said = problems[number], asked[number]
        if "errors" in answer:
            imported = Imported(kernel_name(problem.path.name), error=answer["errors"][0])
            sol: dict[str, Any] = {}
        else:
            imported, sol = from_json(Imported, answer["imported"]), answer["sol"]
        bound = lowest(sol, precision) if sol else None
        yield Task(
            problem.key,
            said["path"],
            said["text"],
            precision,
            card,
            target,
            imported,
            sol,
            bound.ms if bound else None,
        )


def _answers(asked: Sequence[dict[str, Any]], jobs: int) -> Iterator[tuple[int, dict[str, Any]]]:
    with guard.temporary_folder(tempfile.gettempdir()) as folder:
        requests, log = os.path.join(folder, "requests.json"), os.path.join(folder, "server.log")
        with open(requests, "w", encoding="utf-8") as file:
            json.dump({"seconds": SECONDS, "memory": MEMORY, "jobs": jobs, "asked": asked}, file)
        came = 0
        reading, writing = os.pipe()
        with open(log, "wb") as printed, open(reading, encoding="utf-8") as answers:
            process = subprocess.Popen(
                [sys.executable, "-m", "mucc.agent.engine.import_server", requests, str(writing)],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                pass_fds=(writing,),
                cwd=folder,
                env={
                    **os.environ,
                    "TMPDIR": folder,
                    "PYTHONPATH": os.pathsep.join(os.path.abspath(p or ".") for p in sys.path),
                    "CUDA_VISIBLE_DEVICES": "",
                },
                start_new_session=True,
            )
            os.close(writing)
            guard.watch(process.pid)
            try:
                for line in answers:
                    came += 1
                    found = json.loads(line)
                    yield found.pop("number"), found
            finally:
                guard.forget(process.pid)
                if came < len(asked):
                    process.kill()
                process.wait()
        if came < len(asked):
            raise _ended(log, process.returncode)


def _ended(log: str, status: int) -> DiagnosticError:
    """Why the process of the imports gave less than all answers."""
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = file.read()[-4000:].strip().splitlines()
    if any("No module named 'torch'" in line for line in lines):
        helps = ("pip install torch",)
        return DiagnosticError(Diagnostic("MU7001", "importing from PyTorch needs torch", helps=helps))
    notes = ("\n".join(["it printed last:", *lines[-8:]]),) if lines else ()
    return DiagnosticError(
        Diagnostic("MU7212", f"the process that imports problems ended with status {status}", notes=notes)
    )


def with_baselines(task: Task, baselines: dict[str, float]) -> Task:
    """The task, with what its baselines take in ms."""
    return dataclasses.replace(task, baselines=dict(baselines))
