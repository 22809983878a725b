"""The console scripts. Signals are handled before anything else is imported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

from mucc.cli import streams
from mucc.process import interrupts


def run(command: Callable[[], int]) -> NoReturn:
    """Run a command as a process of its own, and exit with its status, or 128 + the number of a signal."""
    streams.open_closed()
    streams.allow_names()
    try:
        interrupts.install()
        from mucc.cli.reporting import Reporter, asks_for_json

        interrupts.farewell = Reporter(json=asks_for_json(sys.argv)).farewell
        status = command()
        sys.stdout.flush()
        sys.stderr.flush()
    except (KeyboardInterrupt, interrupts.Terminated) as error:
        from mucc.cli.reporting import Reporter, asks_for_json

        status = Reporter(json=asks_for_json(sys.argv)).interrupted(error)
    interrupts.leave(status)


def mucc() -> NoReturn:
    """`mucc`."""
    run(lambda: _tool("mucc.cli.main"))


def mucc_agent() -> NoReturn:
    """`mucc-agent`."""
    run(lambda: _tool("mucc.agent.cli.main"))


def mucc_opt() -> NoReturn:
    """`mucc-opt`."""
    run(lambda: _tool("mucc.cli.opt"))


def _tool(module: str) -> int:
    """Run the command line of this process."""
    import gc
    from importlib import import_module

    gc.disable()  # a compiler run is short: what it makes lives until it ends
    return import_module(module).main()
