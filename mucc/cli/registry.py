"""Every subcommand: its name, one line of help, and the module that runs it.

A command module defines `main(argv: list[str], reporter: Reporter) -> int`. Nothing is imported
before a command is chosen, so that `mucc --help` stays fast.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """One subcommand."""

    module: str
    help: str


COMMANDS: dict[str, Command] = {
    "build": Command("mucc.cli.build", "compile FILE (the default command)"),
    "check": Command("mucc.cli.check", "report errors and warnings without compiling"),
    "fmt": Command("mucc.cli.fmt", "rewrite files in the one canonical layout"),
    "run": Command("mucc.cli.run", "compile, run, compare with the interpreter, and time"),
    "import": Command("mucc.cli.imports", "make a program of a PyTorch module (a KernelBench problem file)"),
    "tune": Command("mucc.cli.tune", "search for the fastest schedules by measuring, and remember them"),
    "sol": Command("mucc.cli.sol", "the speed of light: what no implementation is faster than"),
    "device": Command("mucc.cli.device", "list known cards, or measure the ceilings of the one at hand"),
    "explain": Command("mucc.cli.explain", "say what a diagnostic code means and how to mend it"),
    "docs": Command("mucc.cli.docs", "print the reference card, the grammar or the list of codes"),
    "doctor": Command("mucc.cli.doctor", "show what was found on this machine and what is missing"),
    "cache": Command("mucc.cli.cache", "show, clear, fill or check the cache of what was compiled"),
    "targets": Command("mucc.cli.targets", "list the GPUs that can be compiled for"),
}
