"""`mucc-agent audit PROBLEM.py SOLUTION`: whether a solution counts."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from mucc.agent.audit.options import Options as AuditOptions
from mucc.agent.cli import options as agent_options
from mucc.api.commands import Reporter, argument, candidates, command, flag, option, options
from mucc.api.diagnostics import ExitStatus, usage_error
from mucc.api.files import json_text
from mucc.api.sandbox import Isolation

DESCRIPTION = """\
Judge a solution that claims to replace the Model of a problem: results on fresh and hidden
inputs, times, and every known way of cheating. PROBLEM defines Model and get_inputs(); SOLUTION
is a Python file that defines ModelNew, a library that mucc built, or a .mcu program, and runs in
a process of its own."""


@dataclass
class Arguments:
    """The command line."""

    problem: str | None = argument(
        None, metavar="PROBLEM", help="a problem file (.py)", complete=candidates.files(options.PROBLEM)
    )
    solution: str | None = argument(
        None,
        metavar="SOLUTION",
        help="what claims to replace its Model",
        complete=candidates.files(options.PROBLEM, options.PROGRAM, ".so"),
    )
    device: str = option(
        "auto", choices=("auto", "cuda", "cpu"), help="where to run; auto: a GPU if there is one"
    )
    precision: str = agent_options.precision()
    card: str | None = agent_options.bound_card()
    isolation: str = agent_options.isolation()
    seed: int | None = option(None, type=int, metavar="N", help="repeat an audit (default: a fresh seed)")
    runs: int = option(30, metavar="N", help="timed calls at the most")
    no_bound: bool = flag(help="do not compute the speed of light")
    shapes: bool = flag(help="audit at smaller sizes too, where it serves them")
    time_limit: float = options.time_limit(300.0, "seconds for each process")
    memory_limit: int = options.memory_limit("main memory beside torch")
    json: bool = options.json("print the verdict as one JSON object")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(Arguments, DESCRIPTION, usage="PROBLEM.py SOLUTION.py|kernel.so|kernel.mcu [options]")
def main(args: Arguments, reporter: Reporter) -> int:
    """Judge one solution."""
    if args.problem is None or args.solution is None:
        raise usage_error("two files are needed", "mucc-agent audit problem.py solution.py")
    from mucc.agent.audit.auditing import audit
    from mucc.agent.audit.findings import Label
    from mucc.api.machine import get_card

    options.check_limits(args.time_limit, args.memory_limit)
    if args.runs <= 0:
        raise usage_error("--runs needs a number above 0")
    if args.seed is not None and args.seed < 0:
        raise usage_error("--seed needs a number of at least 0")
    if args.card is not None:
        get_card(args.card)
    verdict = audit(
        args.problem,
        args.solution,
        AuditOptions(
            device=args.device,
            card=args.card,
            precision=args.precision,
            seed=args.seed,
            time_limit=args.time_limit,
            memory_limit=args.memory_limit,
            runs=args.runs,
            bound=not args.no_bound,
            shapes=args.shapes,
            isolation=Isolation(args.isolation),
        ),
    )
    if args.json:
        sys.stdout.write(json_text(verdict.to_json()))
    else:
        sys.stdout.write(verdict.as_text())
    if verdict.label is Label.INCONCLUSIVE:
        return ExitStatus.INCONCLUSIVE
    return ExitStatus.GOOD if verdict.accepted else ExitStatus.REJECTED
