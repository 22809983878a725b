"""The options of `mucc tune`, and which of them go together."""

from __future__ import annotations

from dataclasses import dataclass, field

from mucc.cli.parsing import DEFAULT_TARGET, Parser, add_diagnostics, add_target, usage_error

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


def action_of(args: Arguments) -> str | None:
    """What to do besides tuning; None where a file is to be tuned. Raises MU5001 for options that do not go
    together or make no sense."""
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
