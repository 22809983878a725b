"""What a problem file has done to the process that ran it, as an error."""

from __future__ import annotations

import signal

from mucc.agent.isolation.process import ChildFailed
from mucc.diagnostics.core import Diagnostic, DiagnosticError


def problem_error(shown: str, failed: ChildFailed) -> DiagnosticError:
    """MU7001 without torch; MU7013 to MU7015 for a problem file that hangs, takes too much, or ends."""
    notes = (f"it printed last:\n{failed.printed}",) if failed.printed else ()
    if "No module named 'torch'" in failed.printed:
        return _error("MU7001", "running problems needs torch", "pip install torch")
    if failed.cause == "time":
        return _error("MU7013", f"{shown} {failed.reason}", "--time-limit gives more time", notes=notes)
    if failed.cause == "memory" or failed.status == -signal.SIGKILL:
        return _error("MU7014", f"{shown} {failed.reason}", "--memory-limit sets the limit", notes=notes)
    return _error("MU7015", f"the process that ran {shown} {failed.reason}", notes=notes)


def _error(code: str, message: str, *helps: str, notes: tuple[str, ...] = ()) -> DiagnosticError:
    return DiagnosticError(Diagnostic(code, message, notes=notes, helps=helps))
