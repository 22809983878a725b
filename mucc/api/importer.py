"""PyTorch modules: open and import a problem file in a child process with limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.api import names_from

if TYPE_CHECKING:
    from mucc.torch.importer.child import TORCH, answered, serve
    from mucc.torch.importer.limits import TORCH_MEMORY, limit_process
    from mucc.torch.importer.problem import OpenedProblem, raised
    from mucc.torch.importer.request import (
        Answer,
        OperationRow,
        Request,
        error_from_json,
        error_to_json,
        kernel_name,
        parse_problem,
    )
    from mucc.torch.importer.sandbox import run
    from mucc.torch.importer.scale import LIMITS, scaled

__all__ = [
    "LIMITS",
    "TORCH",
    "TORCH_MEMORY",
    "Answer",
    "OpenedProblem",
    "OperationRow",
    "Request",
    "answered",
    "error_from_json",
    "error_to_json",
    "kernel_name",
    "limit_process",
    "parse_problem",
    "raised",
    "run",
    "scaled",
    "serve",
]

__getattr__ = names_from(
    __name__,
    {
        "mucc.torch.importer.child": ("TORCH", "answered", "serve"),
        "mucc.torch.importer.limits": ("TORCH_MEMORY", "limit_process"),
        "mucc.torch.importer.problem": ("OpenedProblem", "raised"),
        "mucc.torch.importer.request": (
            "Answer",
            "OperationRow",
            "Request",
            "error_from_json",
            "error_to_json",
            "kernel_name",
            "parse_problem",
        ),
        "mucc.torch.importer.sandbox": ("run",),
        "mucc.torch.importer.scale": ("LIMITS", "scaled"),
    },
)
