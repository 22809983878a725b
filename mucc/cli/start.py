"""Entry points of the console scripts. Signal handlers are installed before other modules are imported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

from mucc.cli import streams
from mucc.process import interrupts


def run(command: Callable[[], int]) -> NoReturn:
    """Run a command as the main function of its process, and exit with its status."""
    streams.open_closed()
    streams.allow_names()
    try:
        interrupts.install()
        from mucc.cli.reporting import Reporter

        interrupts.farewell = Reporter.of(sys.argv[1:]).farewell
        status = command()
        sys.stdout.flush()
        sys.stderr.flush()
    except (KeyboardInterrupt, interrupts.Terminated) as error:
        from mucc.cli.reporting import Reporter

        status = Reporter.of(sys.argv[1:]).interrupted(error)
    interrupts.leave(status)


def mucc() -> NoReturn:
    """Run the console script `mucc`."""
    run(lambda: _tool("mucc.cli.main"))


def mucc_agent() -> NoReturn:
    """Run the console script `mucc-agent`."""
    run(lambda: _tool("mucc.agent.cli.main"))


def mucc_opt() -> NoReturn:
    """Run the console script `mucc-opt`."""
    run(lambda: _tool("mucc.cli.opt"))


def _tool(module: str) -> int:
    """Import a module and run its `main`."""
    import gc
    from importlib import import_module

    gc.disable()  # a compilation is short, and most of its objects live until the end
    return import_module(module).main()
