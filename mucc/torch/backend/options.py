"""Options of the torch.compile backend."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mucc.diagnostics.core import Diagnostic, DiagnosticError, did_you_mean

CHOICES = {
    "fallback": ("eager", "error"),
    "compute": (None, "f32", "tf32", "tf32x3"),
    "round": ("fused", "eager"),
}


@dataclass(frozen=True)
class Options:
    """Options of compiling graphs.

    `target` is one of `mucc targets`; left out it is that of the tensors' GPU. `compute` is the format of
    f32 products; left out it is what torch is set up to. With `round="eager"` the result of each operation on
    16-bit floats is rounded, as PyTorch does it; else only what is stored and what the model converts.
    `schedules` has settings by the name of a kernel
    (`mucc.explain` shows names). With `fallback="error"` what cannot be compiled for a reason that lies in
    mucc or its toolchain raises; else PyTorch runs it, with a warning. `interpret` runs kernels by mucc's
    interpreter, on tensors anywhere: slow, and right by definition.
    """

    target: str | None = None
    compute: str | None = None
    round: str = "fused"
    schedules: Mapping[str, str] = field(default_factory=dict[str, str])
    fallback: str = "eager"
    interpret: bool = False

    @staticmethod
    def of(given: Mapping[str, Any]) -> Options:
        """Build options from names and values. Raises DiagnosticError MU7062 for unknown or illegal ones."""
        names = [f.name for f in dataclasses.fields(Options)]
        for name, value in given.items():
            if name not in names:
                close = did_you_mean(name, names)
                raise _error(
                    f"the backend has no option '{name}'",
                    f"did you mean '{close}'?" if close else f"options are {', '.join(names)}",
                )
            if name in CHOICES and value not in CHOICES[name]:
                listed = ", ".join(repr(c) for c in CHOICES[name])
                raise _error(f"{name}={value!r} is none of {listed}")
        options = Options(**given)
        if options.target is not None:
            from mucc.target import get_target

            get_target(options.target)
        return options


def _error(message: str, *helps: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic("MU7062", message, helps=helps))
