"""Open the store of a run: a new run, or one that goes on."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from mucc import __version__
from mucc.agent.core.proposer import Lesson
from mucc.agent.core.tasks import Task
from mucc.agent.engine.options import Options, resumed
from mucc.agent.engine.task_run import first_record
from mucc.agent.importing.import_tasks import import_all
from mucc.agent.importing.problems import Problem, find_problems
from mucc.agent.isolation.zygote import Zygote
from mucc.agent.report.reading import DATABASE, database_of
from mucc.agent.store import RunInfo, Store, TaskRecord
from mucc.api.build import find_toolchain
from mucc.api.diagnostics import Diagnostic, DiagnosticError
from mucc.api.json_types import Json
from mucc.api.machine import gpu, installed


@dataclass(frozen=True)
class Opened:
    """An opened run: its store, options and problem files, and whether it was begun `before`."""

    store: Store
    options: Options
    problems: list[Problem]
    before: bool


def open_run(
    folder: str,
    paths: Sequence[str],
    asked: Json,
    defaults: Options,
    command: str = "mucc-agent optimize",
    check: Callable[[Options], object] = lambda _: None,
) -> Opened:
    """Open the run in `folder`, or begin one there.

    `asked` are the options that were named, `defaults` all others; `check` raises for options that a new run
    cannot use, before anything is written. Raises MU7205 where there is neither a run nor a problem, MU7206
    where options or problems differ from those of the run, and what `Store` and `find_problems` raise.
    """
    path = os.path.join(folder, DATABASE)
    there = os.path.exists(path)
    if not there and not paths:
        raise _nothing(folder)
    found = find_problems(paths) if paths else []
    merged = Options.from_json(_merged(defaults.to_json(), asked))
    if not there:
        check(merged)
        _lessons_of(merged.memory)
    store = Store(path, create=True)
    try:
        info = store.info()
        if info is None:
            if not found:
                raise _nothing(folder)
            _begin(store, merged, found, command)
            return Opened(store, merged, found, False)
        options = resumed(Options.from_json(info.options), asked)
        problems = [Problem(Path(row["path"])) for row in info.options["problems"]]
        if found and {p.key for p in found} != {p.key for p in problems}:
            names = ", ".join(p.key for p in problems[:8])
            helps = ("leave the problems out to go on with those of the run, or choose another folder",)
            message = f"the run in {folder} is of other problems: {names}"
            raise DiagnosticError(Diagnostic("MU7206", message, helps=helps))
        return Opened(store, options, problems, True)
    except BaseException:
        store.close()
        raise


def _nothing(folder: str) -> DiagnosticError:
    helps = ("mucc-agent optimize problem.py -o run",)
    return DiagnosticError(
        Diagnostic("MU7205", f"{folder} holds no run, and no problem is named", helps=helps)
    )


def _merged(known: Json, asked: Json) -> Json:
    budget = {**known["budget"], **asked.get("budget", {})}
    return {**known, **asked, "budget": budget}


def _begin(store: Store, options: Options, problems: Sequence[Problem], command: str) -> None:
    store.add_lessons(_lessons_of(options.memory))
    said = {
        **options.to_json(),
        "problems": [{"key": p.key, "path": str(p.path.resolve())} for p in problems],
    }
    now = datetime.now(UTC).isoformat(timespec="seconds")
    store.start(RunInfo(command, now, __version__, said, options.card, versions()))


def versions() -> dict[str, str]:
    """Versions that times and results depend on, besides mucc: the GPU and its driver's CUDA, PyTorch,
    compilers."""
    found = {"python": platform.python_version(), "gpu": gpu().detail}
    found |= installed("torch", "triton")
    with suppress(DiagnosticError):
        tools = find_toolchain().versions()
        found |= dict(zip(("nvcc", "CUTLASS", "host compiler"), tools, strict=True))
    return found


def _lessons_of(runs: Sequence[str]) -> list[Lesson]:
    """Read the lessons of other runs; the run's name before each task keeps tasks apart. Raises as
    `Store`."""
    found: list[Lesson] = []
    for run in runs:
        path = database_of(run)
        name = os.path.basename(os.path.dirname(os.path.abspath(path)))
        with Store(path) as other:
            found += [replace(lesson, task=f"{name}:{lesson.task}") for lesson in other.lessons()]
    return found


def import_missing(opened: Opened, zygote: Zygote) -> list[TaskRecord]:
    """Import the problems of a run that are not imported yet; all tasks in order. Raises as `import_all`."""
    store, options = opened.store, opened.options
    there = {record.task.key for record in store.tasks()}
    waiting = [p for p in opened.problems if p.key not in there]
    if waiting:
        made = import_all(zygote, waiting, options.precision, options.card, options.target, options.jobs)
        ready: dict[str, Task] = {}
        order = iter(waiting)
        following = next(order, None)
        for task in made:
            ready[task.key] = task
            while following is not None and following.key in ready:  # in the order of the problems
                store.put_task(first_record(ready.pop(following.key)))
                following = next(order, None)
    return store.tasks()
