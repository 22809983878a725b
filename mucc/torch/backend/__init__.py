"""`torch.compile(model, backend="mucc")`: graphs of dynamo, with kernels of mucc in the place of operations.

dynamo captures and guards, AOTAutograd makes a functional graph of it with parameters as inputs, and the
importer (`mucc.torch.importer`) cuts kernels out of that. `backend` has the entry, `graphs` what the
importer is told of such graphs, `stitch` the graph with kernels in it, `launch` a kernel as a call of torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mucc.torch.backend.backend import Backend, dynamo_backend, torch_backend
    from mucc.torch.backend.report import Explanation, explain

__all__ = ["Backend", "Explanation", "dynamo_backend", "explain", "torch_backend"]

_HOMES = {"Explanation": "report", "explain": "report"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"mucc.torch.backend.{_HOMES.get(name, 'backend')}"), name)
