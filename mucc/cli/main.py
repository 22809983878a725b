"""The entry point of `mucc`: dispatch to a command, and convert errors to an exit status."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from mucc.cli import start, streams
from mucc.cli.registry import MUCC, Tool
from mucc.cli.reporting import Reporter
from mucc.compiler.source import PROGRAM
from mucc.diagnostics.core import Diagnostic, DiagnosticError, ExitStatus, did_you_mean
from mucc.process import interrupts
from mucc.process.interrupts import Terminated

BROKEN_PIPE = 141
"""The exit status for a broken pipe: 128 + the number of SIGPIPE, as shells report it."""


def _unknown_command(tool: Tool, word: str) -> DiagnosticError:
    program = word + PROGRAM if tool.default else ""
    meant = program if os.path.exists(program) else did_you_mean(word, tool.commands)
    return DiagnosticError(
        Diagnostic(
            "MU5002",
            f"there is no command '{word}'" + (", and no file of that name" if tool.default else ""),
            helps=(
                f"did you mean '{tool.name} {meant}'?"
                if meant
                else f"`{tool.name} --help` lists the commands",
            ),
        )
    )


def _dispatch(argv: list[str], reporter: Reporter, tool: Tool) -> int:
    """Print help or the version, or run a command. Raises MU5002 for an unknown command."""
    if argv[:1] == ["help"] and len(argv) > 1:
        if argv[1] not in tool.commands:
            raise _unknown_command(tool, argv[1])
        argv = [argv[1], "--help"]
    if not argv or argv[0] in ("-h", "--help", "help"):
        sys.stdout.write(tool.help_text())
        return ExitStatus.GOOD if argv else ExitStatus.USAGE
    if argv[0] in ("-V", "--version"):
        from mucc.version import __version__

        sys.stdout.write(f"{tool.name} {__version__}\n")
        return ExitStatus.GOOD
    word = argv[0]
    if word not in tool.commands and (
        tool.default is None or (word.isidentifier() and not os.path.exists(word))
    ):
        raise _unknown_command(tool, word)
    from mucc.cli import command

    return command.run(tool, argv, reporter)


def _unexpected(error: Exception, verbose: bool) -> Diagnostic:
    """Convert an unexpected exception to a diagnostic."""
    if isinstance(error, RecursionError):
        from mucc.compiler.driver import too_deep

        return too_deep().diagnostics[0]
    if isinstance(error, MemoryError):
        helps = ("give it smaller sizes, or a machine with more memory",)
        return Diagnostic("MU5109", "mucc ran out of memory", helps=helps)
    if streams.takes_no_more(error):
        return Diagnostic("MU5014", f"cannot write the output: {error.args[1]}")
    from mucc.diagnostics.internal import internal_error

    return internal_error(error, verbose)


def _flush(reporter: Reporter) -> None:
    """Flush stdout. A failure is reported once, and the rest of the output is dropped."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        streams.drop_output()
        reporter.add([_unexpected(error, False)])


def main(argv: list[str] | None = None, tool: Tool = MUCC) -> int:
    """Run a command line and return its exit status. Raises nothing, except for a defect of mucc."""
    argv = sys.argv[1:] if argv is None else argv
    if instruction := os.environ.get(tool.completion_variable):
        from mucc.cli.completion import answer

        return answer(tool, instruction)
    verbose = "--verbose" in argv or "-v" in argv
    reporter = Reporter.of(argv, verbose=verbose)
    interrupts.farewell = reporter.farewell
    try:
        try:
            status = _dispatch(argv, reporter, tool)
        except DiagnosticError as error:
            reporter.add(error.diagnostics)
            status = ExitStatus.GOOD
        except (BrokenPipeError, KeyboardInterrupt):
            raise
        except Exception as error:
            reporter.add([_unexpected(error, verbose)])
            status = ExitStatus.GOOD
        _flush(reporter)
        reporter.close()
        return max(int(status), int(reporter.status))
    except BrokenPipeError:
        # The reader of stdout has closed it.
        streams.drop_output()
        return BROKEN_PIPE
    except (KeyboardInterrupt, Terminated) as error:
        return reporter.interrupted(error)


def entry(tool: Tool = MUCC) -> NoReturn:
    """Run a tool as the main function of its process."""
    start.run(lambda: main(tool=tool))
