"""`torch.compile(model, backend="mucc")`: Inductor's graphs, with kernels of mucc in the place of regions.

dynamo captures and guards, AOTAutograd and Inductor make functional graphs of it. `backend` has the entry,
`passes` the pass over each graph, `regions` and `expected` the choice, `rewrite` the calls of kernels in the
graph, `operator` what runs them, `report` what `mucc.explain` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mucc.torch.backend.backend import Backend, dynamo_backend, torch_backend
    from mucc.torch.backend.report import Explanation, explain

__all__ = ["Backend", "Explanation", "dynamo_backend", "explain", "torch_backend"]

_HOMES = {"Explanation": "report", "explain": "report"}
_STAND_INS = ("dynamo_backend", "torch_backend")


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = _HOMES.get(name, "backend")
    if name in _STAND_INS:
        from mucc.torch.backend.versions import USED, missing

        home = "alone" if missing(USED) else home
    return getattr(import_module(f"mucc.torch.backend.{home}"), name)
