"""Whether a kernel that claims to replace a PyTorch module does: checks, and a verdict with evidence.

    from mucc.agent.audit import Options, audit

    verdict = audit("problem.py", "solution.py", Options(device="cuda"))

Nothing here imports torch in the caller's process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mucc.agent.audit.auditing import audit
    from mucc.agent.audit.findings import Finding, Label, Severity
    from mucc.agent.audit.observations import Bound
    from mucc.agent.audit.options import Options
    from mucc.agent.audit.verdict import Verdict

_LAZY = {
    "Bound": "observations",
    "Finding": "findings",
    "Label": "findings",
    "Options": "options",
    "Severity": "findings",
    "Verdict": "verdict",
    "audit": "auditing",
}

__all__ = ["Bound", "Finding", "Label", "Options", "Severity", "Verdict", "audit"]


def __getattr__(name: str) -> object:
    if (module := _LAZY.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{module}"), name)
