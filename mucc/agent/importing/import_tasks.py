"""Import problem files as tasks, each in its own process: the parent's side of `child`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from mucc.agent.audit.bound import lowest
from mucc.agent.core.tasks import Imported, Task
from mucc.agent.importing.problems import Problem
from mucc.agent.isolation.call import Call
from mucc.agent.isolation.zygote import Zygote
from mucc.api.diagnostics import DiagnosticError
from mucc.api.importer import TORCH, error_to_json, kernel_name
from mucc.api.json_types import SolReport, from_json

PRELOADED = (*TORCH, "mucc.agent.importing.child")
"""Modules that processes of imports need."""

SECONDS = 300.0
"""Seconds that the import of one problem may take."""

MEMORY = 8 << 30
"""Bytes of main memory that an import may take beside torch."""


def import_all(
    zygote: Zygote, problems: Sequence[Problem], precision: str, card: str, target: str, jobs: int
) -> Iterator[Task]:
    """Yield the task of each problem file as its import ends; up to `jobs` processes run at a time.

    What cannot be imported has the diagnostic in `imported.error`. Raises DiagnosticError: MU5010 to MU5013
    for files that cannot be read, MU7001 without torch, MU7212 where there can be no process.
    """
    from mucc.api import files

    texts = [files.read_source(str(p.path)).text for p in problems]

    def work(problem: Problem, text: str) -> Task:
        path = str(problem.path)
        asked: dict[str, Any] = {"precision": precision, "card": card, "target": target}
        imported, sol = _imported(zygote, path=path, text=text, **asked)
        bound = lowest(sol, precision) if sol else None
        whole, part = (bound, None) if bound is None or bound.whole else (None, bound)
        return Task(
            *(problem.key, path, text),
            **asked,
            imported=imported,
            sol=sol,
            bound_ms=whole.ms if whole else None,
            least_ms=part.ms if part else None,
        )

    pool = ThreadPoolExecutor(max(jobs, 1), "import")
    try:
        futures = [pool.submit(work, *each) for each in zip(problems, texts, strict=True)]
        for future in as_completed(futures):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _imported(zygote: Zygote, path: str, **asked: Any) -> tuple[Imported, SolReport]:
    """Import a problem, and its speed of light. Raises DiagnosticError where no process can be started."""
    function = "mucc.agent.importing.child:import_task"
    call = Call(zygote, function, path, seconds=SECONDS, memory=MEMORY, path=path, **asked)
    try:
        made = call.result()
    except DiagnosticError as error:
        return Imported(kernel_name(path), error=error_to_json(error)[0]), SolReport()
    return from_json(Imported, made["imported"]), from_json(SolReport, made["sol"])
