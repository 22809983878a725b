"""Errors of problem files that hang, crash, or exceed memory."""

from __future__ import annotations

import signal

from mucc.agent.isolation.process import ChildFailed
from mucc.api.diagnostics import Diagnostic, DiagnosticError
from mucc.api.processes import notes


def problem_error(shown: str, failed: ChildFailed, *, limits: bool = False) -> DiagnosticError:
    """MU7013 to MU7015: a problem file that hangs, takes too much, or ends its process; MU7214 where the
    machine was too busy to tell. `limits` says that the command at hand has options that set them."""
    code, message, helps = "MU7015", f"the process that ran {shown} {failed.reason}", ""
    if failed.cause == "time":
        code, message, helps = "MU7013", f"{shown} {failed.reason}", "--time-limit gives more time"
    elif failed.cause == "busy":
        code = "MU7214"
    elif failed.cause == "memory" or failed.status == -signal.SIGKILL:
        code, message, helps = "MU7014", f"{shown} {failed.reason}", "--memory-limit sets the limit"
    said = (helps,) if limits and helps else ()
    return DiagnosticError(Diagnostic(code, message, notes=notes(failed.printed), helps=said))
