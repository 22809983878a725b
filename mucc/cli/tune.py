"""`mucc tune FILE --dims M=…`: search for the fastest schedules by measuring; see `mucc.tune`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from mucc.cli.command import command
from mucc.cli.reporting import Reporter
from mucc.cli.tune_options import DESCRIPTION, EPILOG, Arguments, action_of, where_of
from mucc.compiler import files
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.diagnostics.usage import usage_error

if TYPE_CHECKING:
    from mucc.measure.tune.building import Toolset
    from mucc.measure.tune.local import Outcome
    from mucc.measure.tune.plans import Program


@command(Arguments, DESCRIPTION, usage="FILE --dims M=4096,N=4096,K=4096 [options]", epilog=EPILOG)
def main(args: Arguments, reporter: Reporter) -> int:
    """Tune a program, or run an action on measurements."""
    gc.enable()  # a search is long
    action = action_of(args)
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
    if args.ray is not None:
        from mucc.cli.clusters import use_cluster

        use_cluster(args.ray, reporter, args.nvcc)
    if args.build_only is not None:
        return _build_only(program, args, reporter)
    return _tune(program, args, reporter)


def _program(args: Arguments) -> Program:
    from mucc.library.dims import parse_dims
    from mucc.measure.tune.plans import Program

    sizes = [parse_dims([word]) for word in args.dims]
    return Program(files.read_source(args.file), sizes, args.kernel)


def _tools(args: Arguments) -> Toolset:
    from mucc.measure.tune.building import Toolset

    return Toolset(args.nvcc, not args.no_cache)


def _build_only(program: Program, args: Arguments, reporter: Reporter) -> int:
    """Plan a search, and build all candidates into a folder."""
    from mucc.measure.tune.building import Built, build
    from mucc.measure.tune.choosing import plan
    from mucc.measure.tune.starts import starts

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
    """Run the whole search on this machine."""
    from mucc.measure.tune.local import tune
    from mucc.measure.tune.report import no_result, not_used
    from mucc.measure.tune.search import Limits
    from mucc.measure.tune.show import watcher

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
            where=where_of(args, reporter),
            watcher=shown,
        )
    good = [outcome for outcome in outcomes if all(r.best for r in outcome.results)]
    _show(outcomes, good, args)
    if good and (args.write or args.output):
        _write(program, good, args)
    elif not args.write:
        warnings = (not_used(o.kernel, o.choice, o.pins, program.source.name) for o in good)
        reporter.add(w for w in warnings if w)
    if errors := [e for outcome in outcomes for r in outcome.results if (e := no_result(r))]:
        raise DiagnosticError(errors)
    return 0


def _show(outcomes: Sequence[Outcome], good: Sequence[Outcome], args: Arguments) -> None:
    """Print the results: as JSON, or tables to stderr and schedules to stdout."""
    from mucc.measure.tune.report import as_json, schedules_text, table

    if args.json:
        from mucc.files.json_text import json_text

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
        return
    for outcome in outcomes:
        sys.stderr.write("".join(f"{table(r)}\n" for r in outcome.results))
    sys.stdout.write("\n".join(schedules_text(o.kernel, o.choice, o.results) for o in good))


def _write(program: Program, good: Sequence[Outcome], args: Arguments) -> None:
    """Write the program with its schedules to the outputs of --write and -o."""
    from mucc.measure.tune.writing import with_schedules

    new = with_schedules(program.source, [(o.kernel, o.choice) for o in good]).encode()
    if args.write:
        files.write_output(args.file, new)
    if args.output == "-":
        files.write_stdout(new)
    elif args.output:
        files.write_output(args.output, new)
