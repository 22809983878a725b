"""`mucc-agent optimize PROBLEM.py|FOLDER... -o RUN`: verified, faster kernels for PyTorch problems."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from mucc.agent.cli import options as agent_options
from mucc.agent.cli.models import ModelArguments
from mucc.agent.propose import NAMES
from mucc.agent.propose.llm.options import Options as ModelOptions
from mucc.agent.search import STRATEGIES
from mucc.api.commands import Reporter, arguments, candidates, command, flag, option, options, repeated, words
from mucc.api.diagnostics import ExitStatus, usage_error
from mucc.api.json_types import Json

if TYPE_CHECKING:
    from mucc.agent.engine.task_threads import Ending

NEVER = "none"

OFFLINE = "offline"


DESCRIPTION = """\
Make kernels that replace PyTorch problems, and make them fast: import, measure, propose, build,
audit and time, until the budget is spent or nothing more is to be gained. PROBLEM defines Model
and get_inputs(); of a FOLDER all problems are taken. Everything is kept in RUN: the same command
goes on with a run that was ended, `mucc-agent report RUN` shows it."""


@dataclass
class Arguments(ModelArguments):
    """The command line. None where an option was not named: a run that goes on keeps its own."""

    problems: list[str] = arguments(
        metavar="PROBLEM",
        help="problem files (.py), and folders of them",
        complete=candidates.files(options.PROBLEM),
    )
    output: str | None = option(
        None, "-o", metavar="RUN", help="the folder of the run", complete=candidates.folders()
    )
    precision: str | None = agent_options.precision_if_named()
    card: str | None = agent_options.bound_card()
    strategy: str | None = option(None, choices=tuple(STRATEGIES), help="how to search (default: mantis)")
    constants: str | None = option(None, metavar="NAME=VALUE,...", help="constants of the strategy")
    seed: int | None = option(None, type=int, metavar="N", help="seed of random choices (default: 0)")
    budget: str | None = option(
        None,
        metavar="IxHxA",
        help="iterations, hypotheses in each, attempts at each (default: 5x2x4)",
    )
    attempts: int | None = option(
        None, type=int, metavar="N", help="attempts at each hypothesis, as in --budget"
    )
    epsilon: str | None = option(
        None, metavar="E", help="stop within 1 + E of the speed of light, or none (default: 0.25)"
    )
    window: str | None = option(
        None, metavar="N", help="stop after N attempts without progress, or none (default: 8)"
    )
    time: float | None = option(
        None, type=float, metavar="S", help="seconds for each problem (default: no limit)"
    )
    tokens: int | None = option(
        None, type=int, metavar="N", help="tokens for each problem (default: no limit)"
    )
    cost: float | None = option(
        None, type=float, metavar="USD", help="model costs for each problem (default: no limit)"
    )
    total: int | None = option(
        None, type=int, metavar="N", help="attempts for all problems; go where they may gain the most"
    )
    memory: list[str] = repeated(
        metavar="RUN", help="learn from another run, too", complete=candidates.folders()
    )
    proposer: str | None = option(
        None, choices=NAMES, metavar="NAME", help="offline, openai, anthropic or command (default: offline)"
    )
    isolation: str | None = agent_options.isolation_if_named()
    ray: str | None = options.ray(f"build on {options.RAY}")
    jobs: int | None = options.jobs("tasks that run at a time (default: the number of cores)")
    quiet: bool = flag("-q", "--quiet", help="no progress")
    json: bool = options.json("print the table as one JSON object")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(Arguments, DESCRIPTION, usage="PROBLEM.py|FOLDER... -o RUN [options]")
def main(args: Arguments, reporter: Reporter) -> int:
    """Begin a run, or go on with one."""
    if args.output is None:
        raise usage_error("no run", "give it a folder: mucc-agent optimize problem.py -o run")
    asked = asked_for(args)
    args.refuse_secrets()
    if args.proposer not in (None, OFFLINE):
        args.check(args.proposer)
    import gc

    gc.enable()  # a run is long
    from mucc.agent.engine.device import card_at_hand
    from mucc.agent.engine.locking import locked
    from mucc.agent.engine.run import RunRequest, optimize

    if args.ray is not None:
        from mucc.api.commands import use_cluster

        use_cluster(args.ray, reporter)
    request = RunRequest(
        args.output,
        args.problems,
        asked,
        card_at_hand(),
        command=shlex.join(["mucc-agent", "optimize", *words()]),
        quiet=args.quiet or args.json,
    )
    with locked(args.output):
        reporter.goes_on = (f"`mucc-agent optimize -o {args.output}` goes on from here",)
        ending = optimize(request, sys.stderr)
    return _told(args, ending, reporter)


def _told(args: Arguments, ending: Ending, reporter: Reporter) -> int:
    from mucc.agent.engine.results import write_table

    assert args.output is not None
    text, data = write_table(args.output)
    sys.stdout.write(data if args.json else text)
    reporter.add(ending.problems)
    if ending.problems:
        reporter.line(f"`mucc-agent optimize -o {args.output}` goes on with what has not ended")
    return ExitStatus.PROGRAM if ending.failed else ExitStatus.GOOD


def asked_for(args: Arguments) -> Json:
    """Return the options that were named, as `Options.to_json` has them. Raises MU5001."""
    for name in ("attempts", "time", "tokens", "total", "jobs"):
        value: float | None = getattr(args, name)
        if value is not None and not 0 < value < float("inf"):
            raise usage_error(f"--{name} needs a number above 0")
    if args.cost is not None and not 0 <= args.cost < float("inf"):
        raise usage_error("--cost needs a number of at least 0")
    asked: Json = {
        name: value
        for name in ("precision", "card", "strategy", "seed", "total", "proposer", "isolation", "jobs")
        if (value := getattr(args, name)) is not None
    }
    if args.memory:
        asked["memory"] = args.memory
    if args.constants is not None:
        asked["constants"] = _constants(args.constants)
    if budget := _budget(args):
        asked["budget"] = budget
    known = ModelOptions()
    settings = {f.name: getattr(args, f.name) for f in fields(ModelOptions)}
    if changed := {name: value for name, value in settings.items() if value != getattr(known, name)}:
        asked["settings"] = changed
    return asked


def _budget(args: Arguments) -> Json:
    found: Json = {}
    if args.budget is not None:
        parts = args.budget.lower().split("x")
        if len(parts) != 3 or not all(p.isdecimal() and 0 < int(p) <= 1000 for p in parts):
            raise usage_error(f"--budget takes three numbers above 0, not '{args.budget}'", "as in 5x2x4")
        found |= dict(zip(("iterations", "hypotheses", "attempts"), map(int, parts), strict=True))
    if args.attempts is not None:
        found["attempts"] = args.attempts
    if args.epsilon is not None:
        found["epsilon"] = _number("epsilon", args.epsilon)
    if args.window is not None:
        window = _number("window", args.window)
        if window is not None and (window < 1 or window != int(window)):
            raise usage_error(f"--window takes a whole number above 0 or none, not '{args.window}'")
        found["window"] = None if window is None else int(window)
    names = {"time": "seconds", "tokens": "tokens", "cost": "cost"}
    return found | {key: value for name, key in names.items() if (value := getattr(args, name)) is not None}


def _number(option: str, word: str) -> float | None:
    if word == NEVER:
        return None
    try:
        value = float(word)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise usage_error(f"--{option} takes a number or none, not '{word}'")
    return value


def _constants(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise usage_error(f"--constants takes NAME=VALUE, not '{part}'", "as in exploration=1.0,width=3")
    return found
