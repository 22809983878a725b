"""`mucc cache`: how much is stored and how often it helped; `mucc cache clear` empties it."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass

from mucc.cli.parsing import Parser
from mucc.cli.reporting import Reporter
from mucc.diagnostics.core import Diagnostic, DiagnosticError


@dataclass
class Arguments:
    """The parsed command line."""

    action: str = "stats"
    json: bool = False


def parser() -> Parser:
    """The options of `mucc cache`."""
    p = Parser("cache", "Show or clear the cache of compiled kernels (MUCC_CACHE_DIR says where it is).")
    p.add_argument(
        "action", nargs="?", choices=("stats", "clear"), metavar="stats|clear", help="default: stats"
    )
    p.add_argument("--json", action="store_true", help="print JSON")
    return p


def main(argv: list[str], reporter: Reporter) -> int:
    """Show the cache, or clear it and say what went. Raises MU5203 where it cannot be cleared."""
    args = parser().parse(argv, Arguments())
    from mucc.cache import Cache

    cache = Cache()
    try:
        stats = cache.clear() if args.action == "clear" else cache.stats()
    except OSError as error:
        raise DiagnosticError(Diagnostic("MU5203", f"the cache cannot be cleared: {error}")) from error
    if args.json:
        import json

        sys.stdout.write(json.dumps(asdict(stats)) + "\n")
    elif args.action == "clear":
        sys.stdout.write(f"removed {_kernels(stats.entries)}, {_size(stats.size)}, from {stats.path}\n")
    else:
        sys.stdout.write(
            f"path     {stats.path}\n"
            f"size     {_size(stats.size)}\n"
            f"entries  {stats.entries}\n"
            f"hits     {stats.hits}\n"
            f"misses   {stats.misses}\n"
        )
    return 0


def _kernels(n: int) -> str:
    return f"{n} {'entry' if n == 1 else 'entries'}"


def _size(size: int) -> str:
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("the last unit takes any size")
