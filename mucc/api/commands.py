"""A command line like that of `mucc`: commands with options, completion and diagnostics.

A tool is a table of commands, each a module with a class that `command` made. `mucc.cli.completion` is the
command `completion` of any tool. No library imports this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.api import names_from

if TYPE_CHECKING:
    from mucc.cli import candidates, options
    from mucc.cli.clusters import use_cluster
    from mucc.cli.command import command, words
    from mucc.cli.main import entry, main
    from mucc.cli.parameters import argument, arguments, flag, option, repeated
    from mucc.cli.registry import Entry, Tool
    from mucc.cli.reporting import Reporter
    from mucc.cli.start import mucc_agent

__all__ = [
    "Entry",
    "Reporter",
    "Tool",
    "argument",
    "arguments",
    "candidates",
    "command",
    "entry",
    "flag",
    "main",
    "mucc_agent",
    "option",
    "options",
    "repeated",
    "use_cluster",
    "words",
]

__getattr__ = names_from(
    __name__,
    {
        "mucc.cli": ("candidates", "options"),
        "mucc.cli.clusters": ("use_cluster",),
        "mucc.cli.command": ("command", "words"),
        "mucc.cli.main": ("entry", "main"),
        "mucc.cli.parameters": ("argument", "arguments", "flag", "option", "repeated"),
        "mucc.cli.registry": ("Entry", "Tool"),
        "mucc.cli.reporting": ("Reporter",),
        "mucc.cli.start": ("mucc_agent",),
    },
)
