"""Read the GPU's name from the driver, without a CUDA context."""

from __future__ import annotations

from mucc.api.diagnostics import Diagnostic, DiagnosticError
from mucc.api.machine import gpu


def card_at_hand() -> str:
    """Return the driver's name of the first GPU: `NVIDIA H200`. Raises MU7210 if there is none."""
    found = gpu()
    if not found.found:
        helps = ("run it where the card is: attempts are run and timed",)
        raise DiagnosticError(
            Diagnostic("MU7210", f"there is no GPU to optimise on: {found.detail}", helps=helps)
        )
    return found.detail.partition(" (sm_")[0]
