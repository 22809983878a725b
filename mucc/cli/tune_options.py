"""The options of `mucc tune`, and the checks of their combinations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mucc.cli import candidates, options
from mucc.cli.parameters import flag, option
from mucc.diagnostics.usage import usage_error

if TYPE_CHECKING:
    from mucc.cli.reporting import Reporter
    from mucc.diagnostics.core import Diagnostic
    from mucc.measure.tune.where import Where

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
"""Options that take the place of FILE; at most one may be given."""


def _folder(help: str) -> str | None:
    """Declare an option whose value is a folder of candidates."""
    return option(None, metavar="FOLDER", help=help, complete=candidates.folders())


@dataclass
class Arguments:
    """The arguments of `mucc tune`."""

    file: str = options.program("a .mcu file")
    dims: list[str] = options.dims(
        "values for the free dims; give it several times to tune for several sizes at once"
    )
    kernel: str | None = options.kernel("which kernel of the file (default: all)")
    budget: int = option(24, metavar="N", help="the most kernels with different tiles that nvcc compiles")
    factor: float = option(
        1.5,
        metavar="X",
        help="leave out what the model expects to take X times as long as the best",
    )
    again: bool = flag(help="measure again what was measured before")
    keep_pins: bool = flag(help="search only what the file's schedules leave open")
    output: str | None = options.output("write the program with the best schedule to OUT")
    write: bool = flag(help="put the best schedule into FILE")
    json: bool = options.json("print the result as JSON, and no progress")
    build_only: str | None = _folder("build all candidates into a folder; needs no GPU")
    measure_only: str | None = _folder("measure such a folder; needs no compiler")
    collect: str | None = _folder("take a folder's measurements into the database")
    list: bool = flag(help="show what the database holds")
    forget: bool = flag(help="remove it, or what --kernel NAME names")
    export: str | None = option(
        None, metavar="OUT", help="write the database as JSON, - for stdout", complete=candidates.files()
    )
    import_: str | None = option(
        None, metavar="FILE", help="take in what --export wrote", complete=candidates.files()
    )
    gpus: str | None = options.gpus(
        "measure on these GPUs of this machine, side by side (default: the first)"
    )
    ray: str | None = options.ray(f"build and measure on {options.RAY}")
    card: str | None = options.card("the kind of card to measure on in a cluster that has several")
    no_cache: bool = options.no_cache()
    nvcc: str | None = options.nvcc()
    jobs: int | None = options.jobs("candidates built at a time (default: as memory allows)")
    timeout: float = option(60.0, metavar="SECONDS", help="give up on a candidate after this time")
    target: str = options.target()
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


def where_of(args: Arguments, reporter: Reporter) -> Where:
    """Return where to measure."""
    from mucc.measure.tune.where import Where

    gpus = options.gpu_numbers(args.gpus)

    def warn(warning: Diagnostic) -> None:
        reporter.add([warning])

    return Where(gpus, args.ray, args.card, warn=warn)


def _flag(name: str) -> str:
    """Return the option of a field of `Arguments`, such as --build-only."""
    return f"--{name.strip('_').replace('_', '-')}"


def action_of(args: Arguments) -> str | None:
    """Return the action of a command line, None for tuning a file. Raises MU5001 for illegal options."""
    given = [name for name in ACTIONS if getattr(args, name)]
    if len(given) > 1:
        words = " and ".join(map(_flag, given))
        raise usage_error(f"{words} do not go together", "use one of them")
    if args.build_only is not None and given:
        raise usage_error(f"--build-only and {_flag(given[0])} do not go together", "use one of them")
    if args.build_only is not None and (args.write or args.output):
        raise usage_error("--build-only measures nothing, so there is no result to write")
    if args.budget < 1:
        raise usage_error("--budget needs a number above 0")
    if not args.factor >= 1:
        raise usage_error("--factor needs a number of at least 1")
    if not args.timeout > 0:
        raise usage_error("--timeout needs a number of seconds above 0")
    if args.jobs is not None and args.jobs < 1:
        raise usage_error("--jobs needs a number above 0")
    if args.gpus is not None and args.ray is not None:
        raise usage_error("--gpus is about this machine, --ray about a cluster", "use one of them")
    if args.card is not None and args.ray is None:
        raise usage_error("--card chooses among the cards of a cluster, so it goes with --ray")
    options.gpu_numbers(args.gpus)
    return given[0] if given else None
