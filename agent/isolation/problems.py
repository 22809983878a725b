"""What a problem file has done to the process that ran it, as an error."""

from __future__ import annotations

import signal

from mucc.agent.isolation.process import ChildFailed
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.printed import notes


def problem_error(shown: str, failed: ChildFailed) -> DiagnosticError:
    """MU7013 to MU7015: a problem file that hangs, takes too much, or ends its process."""
    said = notes(failed.printed)
    if failed.cause == "time":
        return _error("MU7013", f"{shown} {failed.reason}", "--time-limit gives more time", notes=said)
    if failed.cause == "memory" or failed.status == -signal.SIGKILL:
        return _error("MU7014", f"{shown} {failed.reason}", "--memory-limit sets the limit", notes=said)
    return _error("MU7015", f"the process that ran {shown} {failed.reason}", notes=said)


def _error(code: str, message: str, *helps: str, notes: tuple[str, ...] = ()) -> DiagnosticError:
    return DiagnosticError(Diagnostic(code, message, notes=notes, helps=helps))
