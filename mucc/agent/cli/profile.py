"""`mucc-agent profile PROGRAM.mcu|problem.py`: what limits a program, and what to change in it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mucc.agent.cli import options as agent_options
from mucc.api import files
from mucc.api.commands import Reporter, candidates, command, flag, option, options
from mucc.api.diagnostics import Diagnostic, DiagnosticError, ExitStatus, usage_error
from mucc.api.files import json_text
from mucc.api.json_types import DiagnosticJson

if TYPE_CHECKING:
    from mucc.agent.core.tasks import Task


DESCRIPTION = """\
What limits a program, and what to change: its class by roofline, then the tools of that class,
which look at counters (ncu), machine code, registers and schedules. What cannot be read is named."""


@dataclass
class Arguments:
    """The command line."""

    file: str = options.program(
        "a .mcu program, or a PyTorch problem file (.py)", options.PROGRAM, options.PROBLEM
    )
    library: str | None = option(
        None,
        metavar="SO",
        help="what was built of the program (default: it is built now)",
        complete=candidates.files(".so"),
    )
    no_build: bool = flag(help="read only what the compiler says")
    dims: list[str] = options.open_dims()
    device: str = option("cuda", choices=("cuda", "cpu"), help="cpu: run nothing on a GPU, count nothing")
    card: str = options.card_or("h200", "the card whose bound holds")
    precision: str = agent_options.precision()
    measured: float | None = options.measured()
    time_limit: float = options.time_limit(60.0, "seconds for each step")
    json: bool = options.json("print the analysis as one JSON object")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(Arguments, DESCRIPTION, usage="PROGRAM.mcu|problem.py [--dims M=4096,...] [options]")
def main(args: Arguments, reporter: Reporter) -> int:
    """Analyse one program."""
    if not args.file:
        raise usage_error("no input file", "mucc-agent profile kernel.mcu --dims M=4096")
    if args.measured is not None and not 0 < args.measured < float("inf"):
        raise usage_error(f"--measured must be a time in milliseconds above 0, got {args.measured:g}")
    options.check_time_limit(args.time_limit)
    if args.library is not None:
        _check_library(args.library)
    from mucc.agent.profile.profiler import study
    from mucc.agent.profile.text import as_text
    from mucc.api.json_types import to_json
    from mucc.api.library import parse_dims

    dims = parse_dims(args.dims)
    task = _problem(args) if args.file.endswith(".py") else _program(args, dims)
    with tempfile.TemporaryDirectory(prefix="mucc-") as folder:
        library: str | None = args.library
        said: Sequence[DiagnosticJson] = ()
        if library is None and not args.no_build:
            library, said = _built(task, dims, folder, reporter)
        found = study(
            task,
            task.imported.program,
            library,
            device=args.device,
            ms=args.measured,
            dims=dims,
            diagnostics=said,
            time_limit=args.time_limit,
        )
    if args.json:
        report = {"file": args.file, "card": task.card, "tools": list(found.ran), **to_json(found.analysis)}
        sys.stdout.write(json_text(report))
    else:
        sys.stdout.write(as_text(args.file, task.card, found.analysis, found.ran))
    return ExitStatus.GOOD


def _check_library(path: str) -> None:
    """Raise MU6030 to MU6035 for a file that is no library of mucc."""
    from pathlib import Path

    from mucc.api.library import MuccError, read_manifest

    try:
        read_manifest(Path(path))
    except MuccError as error:
        raise DiagnosticError(Diagnostic(error.code, error.message)) from error


def _program(args: Arguments, dims: Mapping[str, int]) -> Task:
    """Make a task of a program by itself: its bound is that of what it computes."""
    from mucc.agent.core.tasks import Compiled, Imported, Task
    from mucc.agent.profile.classes import together
    from mucc.api.bounds import analyse_source, as_json
    from mucc.api.machine import get_card

    source = files.read_source(args.file)
    sol = together([as_json(s) for s in analyse_source(source, get_card(args.card), dims, None)])
    name = os.path.splitext(os.path.basename(args.file))[0]
    imported = Imported(name, source.text, compiled=Compiled.WHOLE)
    bound_us = sol.get("bound_us", 0.0)
    bound_ms = bound_us / 1e3 if bound_us and sol.get("whole") else None
    path = args.file
    return Task(
        path, path, source.text, "declared", args.card, options.DEFAULT_TARGET, imported, sol, bound_ms
    )


def _problem(args: Arguments) -> Task:
    """Make the task of a problem file. Raises MU7261 if nothing of it is compiled."""
    from pathlib import Path

    from mucc.agent.importing.import_tasks import PRELOADED, import_all
    from mucc.agent.importing.problems import Problem
    from mucc.agent.isolation.zygote import Zygote

    with Zygote(PRELOADED) as zygote:
        problems = [Problem(Path(args.file))]
        [task] = import_all(zygote, problems, args.precision, args.card, options.DEFAULT_TARGET, 1)
    if error := task.imported.error:
        raise DiagnosticError(
            Diagnostic(
                error["code"],
                error["message"],
                notes=tuple(error.get("notes", ())),
                helps=tuple(error.get("helps", ())),
            )
        )
    if not task.imported.program:
        left = ", ".join(row.operation for row in task.imported.opaque)
        message = f"there is nothing to profile: mucc compiles nothing of '{args.file}' ({left})"
        raise DiagnosticError(Diagnostic("MU7261", message))
    return task


def _built(
    task: Task, dims: Mapping[str, int], folder: str, reporter: Reporter
) -> tuple[str | None, Sequence[DiagnosticJson]]:
    """Build the library of a task's program: None without a toolchain, and what the build reported."""
    from mucc.agent.profile.commands import reported

    program, library = os.path.join(folder, "program.mcu"), os.path.join(folder, "program.so")
    with open(program, "w", encoding="utf-8") as file:
        file.write(task.imported.program)
    sized = [f"--dims={','.join(f'{name}={value}' for name, value in dims.items())}"] if dims else []
    reporter.progress("building the program")
    command = [sys.executable, "-m", "mucc", program, "-o", library, f"--target={task.target}", *sized]
    run = subprocess.run([*command, "--diagnostics=json"], capture_output=True, text=True, check=False)
    if run.returncode == ExitStatus.TOOLCHAIN:
        return None, []
    said = reported(run.stderr)
    if run.returncode:
        notes = tuple(d["message"] for d in said) or tuple(run.stderr.splitlines()[-8:])
        raise DiagnosticError(Diagnostic("MU7260", f"'{task.path}' cannot be built", notes=notes))
    return library, said
