"""`mucc lsp`: serve an editor by the language server protocol."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass

from mucc.cli import options
from mucc.cli.command import command
from mucc.cli.reporting import Reporter
from mucc.diagnostics.core import Diagnostic, DiagnosticError, ExitStatus

DESCRIPTION = """\
Serve an editor by the language server protocol (LSP), on standard input and output: diagnostics with
quick fixes, hover, completion, definitions, references, renaming, outline, formatting and hints of
types. Editors start it; docs/editors.md says how. Needs pygls: pip install 'mucc[lsp]'."""


@dataclass
class Arguments:
    """The arguments of `mucc lsp`."""

    target: str = options.target()
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(Arguments, DESCRIPTION, usage="[--target TARGET]")
def main(args: Arguments, reporter: Reporter) -> int:
    """Serve until the editor ends the connection. Raises MU5213 without pygls, MU4001 for an odd target."""
    from mucc.target import get_target

    get_target(args.target)
    try:
        from mucc.editor.server import make
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        message = "the language server needs pygls"
        raise DiagnosticError(Diagnostic("MU5213", message, helps=("pip install 'mucc[lsp]'",))) from None
    gc.enable()  # unlike a compilation, a server lives long
    # Copies, since the server closes its streams; and nothing else may be written between its messages.
    with (
        os.fdopen(os.dup(sys.stdin.fileno()), "rb") as requests,
        os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers,
        redirect_stdout(sys.stderr),
    ):
        make(args.target).start_io(requests, answers)
    return ExitStatus.GOOD
