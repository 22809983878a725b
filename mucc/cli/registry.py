"""The registry of commands: name, module, and one line of help for `mucc --help`.

The module of a command defines `main` with the decorator `mucc.cli.command.command`. It is imported only when
the command runs, so that `mucc --help` stays fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Entry(NamedTuple):
    """The module and the line of help of a command."""

    module: str
    help: str


@dataclass(frozen=True)
class Tool:
    """A program with several commands: `mucc` or `mucc-agent`."""

    name: str
    help: str
    """The text of `--help`, with a field `{commands}`."""
    commands: Mapping[str, Entry]
    default: str | None = None
    """The command for a line that begins with a file or an option."""

    @property
    def completion_variable(self) -> str:
        """The environment variable by which a shell requests completion."""
        return f"_{self.name.replace('-', '_').upper()}_COMPLETE"

    def help_text(self) -> str:
        """Generate the text of `--help` without importing any command."""
        width = max(map(len, self.commands))
        rows = (f"  {name:<{width}}  {entry.help}" for name, entry in self.commands.items())
        return self.help.format(commands="\n".join(rows))

    def with_command(self, argv: list[str]) -> list[str]:
        """Prepend the default command to a command line that does not begin with a command."""
        if self.default is None or not argv or argv[0] in self.commands:
            return argv
        return [self.default, *argv]


COMMANDS: dict[str, Entry] = {
    "build": Entry("mucc.cli.build", "compile FILE (the default command)"),
    "new": Entry("mucc.cli.new", "begin a project: a kernel, its test, a benchmark, CI"),
    "check": Entry("mucc.cli.check", "report errors and warnings without compiling"),
    "fmt": Entry("mucc.cli.fmt", "rewrite files in the one canonical layout"),
    "run": Entry("mucc.cli.run", "compile, run, compare with the interpreter, and time"),
    "bench": Entry("mucc.cli.bench", "time a kernel beside PyTorch, Inductor and others"),
    "import": Entry("mucc.cli.imports", "make a program of a PyTorch module (a KernelBench problem file)"),
    "bundle": Entry(
        "mucc.cli.bundle", "build the kernels of a PyTorch model, for machines without a compiler"
    ),
    "tune": Entry("mucc.cli.tune", "search for the fastest schedules by measuring, and remember them"),
    "sol": Entry("mucc.cli.sol", "the speed of light: the least time that a card allows"),
    "device": Entry("mucc.cli.device", "list known GPUs, or measure the peak rates of this machine's"),
    "explain": Entry("mucc.cli.explain", "say what a diagnostic code means and how to mend it"),
    "docs": Entry("mucc.cli.docs", "print the reference card, the grammar or the list of codes"),
    "doctor": Entry("mucc.cli.doctor", "show what was found on this machine and what is missing"),
    "cache": Entry("mucc.cli.cache", "show, clear, fill or check the cache of what was compiled"),
    "config": Entry("mucc.cli.config", "print folders of this installation, for CMake and others"),
    "targets": Entry("mucc.cli.targets", "list the GPUs that can be compiled for"),
    "lsp": Entry("mucc.cli.lsp", "serve an editor by the language server protocol"),
    "completion": Entry("mucc.cli.completion", "print a script that completes command lines in a shell"),
}

HELP = """\
mucc compiles .mcu programs into CUTLASS kernels and loadable .so files.

usage: mucc FILE [-o OUT] [options]
       mucc COMMAND [arguments]

commands:
{commands}

`mucc build --help` lists the options of the default command, `mucc COMMAND --help` those of any other.
Exit status: 0 good, 1 errors in the program, 2 wrong usage, 3 toolchain or environment, 4 a defect of mucc.
"""

MUCC = Tool("mucc", HELP, COMMANDS, "build")
