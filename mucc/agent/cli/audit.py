"""`mucc-agent audit PROBLEM.py SOLUTION`: whether a solution counts."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from mucc.agent.audit.options import Options
from mucc.agent.cli.parsing import add_policy
from mucc.cli.parsing import Parser, add_diagnostics, check_limits, usage_error
from mucc.cli.reporting import Reporter
from mucc.diagnostics.core import ExitStatus
from mucc.files.json_text import json_text


@dataclass
class Arguments:
    """The parsed command line."""

    problem: str | None = None
    solution: str | None = None
    device: str = "auto"
    card: str | None = None
    precision: str = "declared"
    seed: int | None = None
    runs: int = 30
    no_bound: bool = False
    shapes: bool = False
    time_limit: float = 300.0
    memory_limit: int = 8192
    json: bool = False
    diagnostics: str = "text"
    verbose: bool = False


def parser() -> Parser:
    """The options of `mucc-agent audit`."""
    p = Parser(
        "audit",
        "Judge a solution that claims to replace the Model of a problem: results on fresh and hidden\n"
        "inputs, times, and every known way of cheating. PROBLEM defines Model and get_inputs(); SOLUTION\n"
        "is a Python file that defines ModelNew, a library that mucc built, or a .mcu program, and runs in\n"
        "a process of its own.",
        usage="mucc-agent audit PROBLEM.py SOLUTION.py|kernel.so|kernel.mcu [options]",
        tool="mucc-agent",
    )
    p.add_argument("problem", nargs="?", metavar="PROBLEM", help="a problem file (.py)")
    p.add_argument("solution", nargs="?", metavar="SOLUTION", help="what claims to replace its Model")
    p.add_argument(
        "--device", choices=("auto", "cuda", "cpu"), help="where to run (default: a GPU if there is one)"
    )
    add_policy(p)
    p.add_argument("--seed", type=int, metavar="N", help="repeat an audit (default: a fresh seed)")
    p.add_argument("--runs", type=int, metavar="N", help="timed calls at the most (default: 30)")
    p.add_argument("--no-bound", action="store_true", help="do not compute the speed of light")
    p.add_argument("--shapes", action="store_true", help="audit at smaller sizes too, where it serves them")
    p.add_argument("--time-limit", type=float, metavar="S", help="seconds for each process (default: 300)")
    p.add_argument("--memory-limit", type=int, metavar="MIB", help="main memory beside torch (default: 8192)")
    p.add_argument("--json", action="store_true", help="print the verdict as one JSON object")
    add_diagnostics(p)
    return p


def main(argv: list[str], reporter: Reporter) -> int:
    """Judge one solution."""
    args = parser().parse(argv, Arguments())
    if args.problem is None or args.solution is None:
        raise usage_error("two files are needed", "mucc-agent audit problem.py solution.py")
    from mucc.agent.audit.auditing import audit
    from mucc.target.devices import get_card

    check_limits(args.time_limit, args.memory_limit)
    if args.runs <= 0:
        raise usage_error("--runs is above 0")
    if args.seed is not None and args.seed < 0:
        raise usage_error("--seed is not negative")
    if args.card is not None:
        get_card(args.card)
    verdict = audit(
        args.problem,
        args.solution,
        Options(
            device=args.device,
            card=args.card,
            precision=args.precision,
            seed=args.seed,
            time_limit=args.time_limit,
            memory_limit=args.memory_limit,
            runs=args.runs,
            bound=not args.no_bound,
            shapes=args.shapes,
        ),
    )
    if args.json:
        sys.stdout.write(json_text(verdict.to_json()))
    else:
        sys.stdout.write(verdict.as_text())
    return ExitStatus.GOOD if verdict.accepted else ExitStatus.REJECTED
