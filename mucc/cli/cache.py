"""`mucc cache`: show statistics of the build cache; clear, fill or verify it."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from mucc.cli import candidates, options
from mucc.cli.command import command
from mucc.cli.parameters import argument, option
from mucc.cli.reporting import Reporter
from mucc.diagnostics.core import Diagnostic, DiagnosticError, ExitStatus, Severity
from mucc.diagnostics.usage import usage_error

if TYPE_CHECKING:
    from mucc.build.cache.upkeep import Report, Stats

DESCRIPTION = "Show, clear, fill or check the cache of what was compiled."

EPILOG = """\
actions:
  stats     how much each level holds, and how often it helped (the default)
  clear     remove everything
  warm      compile the parts that most kernels share, so that the first build is fast
  verify    check every entry, and drop damaged ones; exit status 3 where there were any

MUCC_CACHE_DIR says where the cache is, MUCC_CACHE_SIZE how much it may hold (such as 2G; default 4G), and
MUCC_CACHE_SHARED names further caches that are read only."""

SHOWN = 8
"""The most paths of damaged entries that a diagnostic lists."""


ACTIONS = ("stats", "clear", "warm", "verify")


@dataclass
class Arguments:
    """The arguments of `mucc cache`."""

    action: str = argument("stats", choices=ACTIONS, metavar="|".join(ACTIONS), help="what to do")
    json: bool = options.json("print JSON")
    target: str | None = option(
        None,
        metavar="ARCH",
        help=f"with warm: the GPU (default: {options.DEFAULT_TARGET})",
        complete=candidates.words(candidates.target_names),
    )
    purpose: str | None = option(
        None, "--for", choices=("torch",), help="with warm: what torch.compile asks for in transformers"
    )
    jobs: int | None = options.jobs("with warm: compilers that run at a time")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(Arguments, DESCRIPTION, usage="[stats | clear | warm | verify] [options]", epilog=EPILOG)
def main(args: Arguments, reporter: Reporter) -> int:
    """Run an action. Raises MU5203 where the cache cannot be cleared, read or filled."""
    if args.action == "warm":
        return _warm(args, reporter)
    if args.target is not None or args.jobs is not None or args.purpose is not None:
        raise usage_error("--target, --for and --jobs go with `mucc cache warm` only")
    from mucc.build.cache import Cache

    cache = Cache()
    status = ExitStatus.GOOD
    try:
        if args.action == "verify":
            status = _show_report(cache.verify(), args, reporter)
        elif args.action == "clear":
            _show_cleared(cache.clear(), args)
        else:
            _show_stats(cache.stats(), args)
    except OSError as error:
        what = "cleared" if args.action == "clear" else "read"
        helps = ("set MUCC_CACHE_DIR to a directory",) if isinstance(error, NotADirectoryError) else ()
        problem = Diagnostic("MU5203", f"the cache cannot be {what}: {error}", helps=helps)
        raise DiagnosticError(problem) from error
    reporter.add(cache.problems)
    return status


def _warm(args: Arguments, reporter: Reporter) -> int:
    if args.json:
        raise usage_error("--json goes with stats, clear and verify only")
    if args.jobs is not None and args.jobs < 1:
        raise usage_error("--jobs needs a number above 0")
    from mucc.build.warm import warm
    from mucc.target import get_target

    target = get_target(args.target or options.DEFAULT_TARGET).name
    _check_can_be_filled()
    warm(target, args.jobs, reporter, args.purpose)
    return ExitStatus.GOOD


def _check_can_be_filled() -> None:
    """Raise MU5203 where the cache's directory is not there and cannot be made, or takes no files."""
    import os

    from mucc.build.cache import Cache

    directory = Cache().directory
    try:
        os.makedirs(directory, exist_ok=True)
        reason = "" if os.access(directory, os.W_OK | os.X_OK) else "permission denied"
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        helps = ("set MUCC_CACHE_DIR to a directory that can be written",)
        message = f"the cache cannot be filled: '{directory}': {reason}"
        raise DiagnosticError(Diagnostic("MU5203", message, helps=helps))


def _print_json(value: object) -> None:
    import json

    sys.stdout.write(json.dumps(value) + "\n")


def _show_stats(stats: Stats, args: Arguments) -> None:
    if args.json:
        return _print_json(asdict(stats))
    from mucc.build.cache import LEVELS

    rows = [["level", "entries", "size", "hits", "misses", "evicted", "holds"]]
    for name, level in stats.levels.items():
        numbers = (str(n) for n in (level.hits, level.misses, level.evicted))
        rows.append([name, str(level.entries), _size(level.size), *numbers, LEVELS[name]])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"path  {stats.path}", f"size  {_size(stats.size)} of {_size(stats.bound)}"]
    if stats.other:
        lines.append(f"      {_size(stats.other)} of it left by other versions or by unfinished builds")
    lines.append("")
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:-1], widths[1:-1], strict=True))]
        lines.append("  ".join((*cells, row[-1])))
    sys.stdout.write("\n".join(lines) + "\n")
    return None


def _show_cleared(before: Stats, args: Arguments) -> None:
    if args.json:
        return _print_json(asdict(before))
    sys.stdout.write(f"removed {_entries(before.entries)}, {_size(before.size)}, from {before.path}\n")
    return None


def _show_report(report: Report, args: Arguments, reporter: Reporter) -> ExitStatus:
    for level, paths in report.damaged.items():
        more = (f"and {len(paths) - SHOWN} more",) if len(paths) > SHOWN else ()
        message = f"{_entries(len(paths))} of '{level}' had been damaged and {_were(len(paths))} dropped"
        reporter.add([_warning("MU5204", message, (*paths[:SHOWN], *more))])
    if report.unreadable:
        notes = tuple(f"{path}: {why}" for path, why in list(report.unreadable.items())[:SHOWN])
        reporter.add([_warning("MU5203", f"{_entries(len(report.unreadable))} cannot be read", notes)])
    if args.json:
        _print_json(asdict(report))
    else:
        sys.stdout.write(f"{_entries(report.whole)} {_were(report.whole)} whole\n")
    return ExitStatus.TOOLCHAIN if report.damaged or report.unreadable else ExitStatus.GOOD


def _warning(code: str, message: str, notes: tuple[str, ...]) -> Diagnostic:
    return Diagnostic(code, message, severity=Severity.WARNING, notes=notes)


def _entries(n: int) -> str:
    return f"{n} {'entry' if n == 1 else 'entries'}"


def _were(n: int) -> str:
    return "was" if n == 1 else "were"


def _size(size: int) -> str:
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("the last unit takes any size")
