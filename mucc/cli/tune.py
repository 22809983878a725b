"""`mucc tune FILE --dims M=…`: search for the fastest schedules, by measuring; see `mucc.tune`."""

from __future__ import annotations

import gc
import sys
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mucc.cli import files
from mucc.cli.parsing import DEFAULT_TARGET, Parser, add_diagnostics, add_target, usage_error
from mucc.cli.reporting import Reporter
from mucc.diagnostics.core import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from mucc.tune.building import Toolset
    from mucc.tune.plans import Program

DESCRIPTION = "Search for the fastest schedules of a program by measuring them on this machine's GPU."

EPILOG = """\
Measurements are kept in a database, MUCC_TUNING_DB or tuning.db in the user's data directory, each as soon as
it is made: an interrupted search goes on where it was. Later compilations of the same problem take the best
one, for sizes that the source binds or --dims names, unless --no-tuned says otherwise.

Where the compilers and the GPU are on different machines:
  mucc tune FILE --dims … --build-only FOLDER     where nvcc is
  mucc tune --measure-only FOLDER                 where the GPU is
  mucc tune --collect FOLDER                      takes its results into the database here"""

ACTIONS = ("measure_only", "collect", "list", "forget", "export", "import_")
"""Options that need no FILE; one at a time."""


@dataclass
class Arguments:
    """The parsed command line."""

    file: str = ""
    dims: list[str] = field(default_factory=list[str])
    kernel: str | None = None
    target: str = DEFAULT_TARGET
    budget: int = 24
    factor: float = 1.5
    again: bool = False
    keep_pins: bool = False
    output: str | None = None
    write: bool = False
    json: bool = False
    build_only: str | None = None
    measure_only: str | None = None
    collect: str | None = None
    list: bool = False
    forget: bool = False
    export: str | None = None
    import_: str | None = None
    no_cache: bool = False
    nvcc: str | None = None
    jobs: int | None = None
    timeout: float = 60.0
    diagnostics: str = "text"
    verbose: bool = False


def parser() -> Parser:
    """The options of `mucc tune`."""
    p = Parser("tune", DESCRIPTION, usage="mucc tune FILE --dims M=4096,N=4096,K=4096 [options]")
    p.epilog = EPILOG
    p.add_argument("file", nargs="?", metavar="FILE", help="a .mcu file")
    p.add_argument(
        "--dims",
        action="append",
        metavar="M=4096,...",
        help="values for the free dims; give it several times to tune for several sizes at once",
    )
    p.add_argument("--kernel", metavar="NAME", help="which kernel of the file (default: all)")
    p.add_argument(
        "--budget",
        type=int,
        metavar="N",
        help="skeletons that nvcc compiles for a kernel at most (default: 24)",
    )
    p.add_argument(
        "--factor",
        type=float,
        metavar="X",
        help="leave out what should take X times as long as the best, by the model (default: 1.5)",
    )
    p.add_argument("--again", action="store_true", help="measure again what was measured before")
    p.add_argument(
        "--keep-pins", action="store_true", help="search only what the file's schedules leave open"
    )
    p.add_argument("-o", metavar="OUT", dest="output", help="write the program with the best schedule to OUT")
    p.add_argument("--write", action="store_true", help="put the best schedule into FILE")
    p.add_argument("--json", action="store_true", help="print the result as JSON, and no progress")
    p.add_argument("--build-only", metavar="FOLDER", help="build all candidates into a folder; needs no GPU")
    p.add_argument("--measure-only", metavar="FOLDER", help="measure such a folder; needs no compiler")
    p.add_argument("--collect", metavar="FOLDER", help="take a folder's measurements into the database")
    p.add_argument("--list", action="store_true", help="show what the database holds")
    p.add_argument("--forget", action="store_true", help="remove it, or what --kernel NAME names")
    p.add_argument("--export", metavar="OUT", help="write the database as JSON, - for stdout")
    p.add_argument("--import", dest="import_", metavar="FILE", help="take in what --export wrote")
    p.add_argument(
        "--no-cache", action="store_true", help="neither use nor fill the cache of compiled kernels"
    )
    p.add_argument("--nvcc", metavar="PATH", help="the nvcc to use, or the CUDA toolkit that holds it")
    p.add_argument(
        "-j", "--jobs", type=int, metavar="N", help="how much is built at a time (default: as memory allows)"
    )
    p.add_argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        help="give up on a candidate after this time (default: 60)",
    )
    add_target(p)
    add_diagnostics(p)
    return p


def main(argv: list[str], reporter: Reporter) -> int:
    """Tune, or look after what was measured."""
    gc.enable()  # a search is long
    args = parser().parse(argv, Arguments())
    action = _action(args)
    if action is not None:
        if args.file:
            raise usage_error(f"--{action.strip('_').replace('_', '-')} takes no FILE")
        from mucc.cli import tune_actions

        return tune_actions.run(action, args, reporter)
    if not args.file:
        raise usage_error(
            "no input file", "give the name of a .mcu file: mucc tune kernel.mcu --dims M=64,N=64,K=64"
        )
    if args.file == "-" and args.write:
        raise usage_error("--write needs a file to write to; the program comes from stdin")
    if args.output is not None and args.output != "-":
        files.check_output(args.output, (args.file,) if args.file != "-" else ())
    program = _program(args)
    if args.build_only is not None:
        return _build_only(program, args, reporter)
    return _tune(program, args, reporter)


def _action(args: Arguments) -> str | None:
    given = [name for name in ACTIONS if getattr(args, name)]
    if len(given) > 1:
        words = " and ".join(f"--{name.strip('_').replace('_', '-')}" for name in given)
        raise usage_error(f"{words} do not go together", "use one of them")
    if args.build_only is not None and (given or args.write or args.output):
        raise usage_error("--build-only measures nothing, so there is no result to write or to look at")
    if args.budget < 1:
        raise usage_error("--budget needs a number above 0")
    if not args.factor >= 1:
        raise usage_error("--factor needs a number of at least 1")
    if not args.timeout > 0:
        raise usage_error("--timeout needs a number of seconds above 0")
    if args.jobs is not None and args.jobs < 1:
        raise usage_error("--jobs needs a number above 0")
    return given[0] if given else None


def _program(args: Arguments) -> Program:
    from mucc.dims import parse_dims
    from mucc.tune.plans import Program

    sizes = [parse_dims([word]) for word in args.dims or []]
    return Program(files.read_source(args.file), sizes, args.kernel)


def _tools(args: Arguments) -> Toolset:
    from mucc.tune.building import Toolset

    return Toolset(args.nvcc, not args.no_cache)


def _build_only(program: Program, args: Arguments, reporter: Reporter) -> int:
    """Plan, and build all candidates into a folder."""
    from mucc.tune.building import Built, build
    from mucc.tune.choosing import plan
    from mucc.tune.starts import starts

    assert args.build_only is not None
    made = plan(
        program,
        target=args.target,
        budget=args.budget,
        factor=args.factor,
        keep_pins=args.keep_pins,
        start=starts(program, args.target),
    )
    total = sum(len(kernel.candidates) for kernel in made.kernels)
    count = failed = 0

    def built(one: Built) -> None:
        nonlocal count, failed
        count += 1
        if one.failure is not None:
            failed += 1
            reporter.progress(f"{one.kernel.name}: {one.failure.reason}")

    folder = build(
        made, args.build_only, args.jobs, tools=_tools(args), display=reporter.display(), built=built
    )
    there = sum(folder.library(c) is not None for k in made.kernels for c in k.candidates)
    if not there:
        reasons = {f.reason for k in made.kernels for c in k.candidates if (f := folder.failure(c))}
        raise DiagnosticError(
            Diagnostic(
                "MU5309", f"none of {total} candidates could be built", notes=tuple(sorted(reasons)[:4])
            )
        )
    sys.stdout.write(f"{there} of {total} candidates are built in {args.build_only}, {failed} failed\n")
    return 0


def _tune(program: Program, args: Arguments, reporter: Reporter) -> int:
    """The whole search on this machine."""
    from mucc.tune.local import tune
    from mucc.tune.report import as_json, no_result, not_used, schedules_text, table
    from mucc.tune.search import Limits
    from mucc.tune.show import watcher
    from mucc.tune.writing import with_schedules

    with closing(watcher(sys.stderr, json=args.json or reporter.json)) as shown:
        outcomes = tune(
            program,
            target=args.target,
            limits=Limits(args.budget, args.factor),
            tools=_tools(args),
            jobs=args.jobs,
            keep_pins=args.keep_pins,
            again=args.again,
            timeout=args.timeout,
            watcher=shown,
        )
    errors = [e for outcome in outcomes for r in outcome.results if (e := no_result(r))]
    good = [outcome for outcome in outcomes if all(r.best for r in outcome.results)]
    text = "\n".join(schedules_text(o.kernel, o.choice, o.results) for o in good)
    if args.json:
        from mucc.json_text import json_text

        found = [
            {
                "kernel": outcome.kernel.name,
                "target": outcome.kernel.target,
                "sizes": [as_json(r) for r in outcome.results],
                "schedule": outcome.kernel.schedules(outcome.choice) if outcome in good else None,
            }
            for outcome in outcomes
        ]
        sys.stdout.write(json_text({"kernels": found}))
    else:
        for outcome in outcomes:
            sys.stderr.write("".join(f"{table(r)}\n" for r in outcome.results))
        sys.stdout.write(text)
    if good and (args.write or args.output):
        new = with_schedules(program.source, [(o.kernel, o.choice) for o in good]).encode()
        if args.write:
            files.write_output(args.file, new)
        if args.output == "-":
            files.write_stdout(new)
        elif args.output:
            files.write_output(args.output, new)
    elif not args.write:
        warnings = (not_used(o.kernel, o.choice, o.pins, program.source.name) for o in good)
        reporter.add(w for w in warnings if w)
    if errors:
        raise DiagnosticError(errors)
    return 0
