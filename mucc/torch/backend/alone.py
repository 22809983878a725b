"""The backend where PyTorch lacks what it needs (`versions.py`): Inductor alone compiles all graphs."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.runtime.build import MuccWarning
from mucc.torch.backend.versions import USED, missing, torch_version


def dynamo_backend(
    module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Any:
    """Compile a graph of dynamo by Inductor, with those of the options that are its own, and warn (MU7060).

    With `fallback="error"` it raises DiagnosticError MU7060 instead.
    """
    given = dict(options or {})
    lacking = ", ".join(missing(USED))
    message = f"Inductor compiles all graphs: torch {torch_version()} has no {lacking}, which mucc needs"
    if given.get("fallback") == "error":
        raise DiagnosticError(Diagnostic("MU7060", message))
    warnings.warn(f"MU7060: {message}", MuccWarning, stacklevel=2)
    inductor: Any = importlib.import_module("torch._inductor")
    mode = given.get("mode", mode)
    settings: dict[str, Any] = dict(inductor.list_mode_options(mode or "default"))
    known = {name.replace("-", "_"): value for name, value in given.items()}
    settings.update({name: value for name, value in known.items() if name in inductor.list_options()})
    return inductor.compile(module, list(inputs), options=settings)


def torch_backend(**options: Any) -> Callable[..., Any]:
    """Make such a backend with options of `mucc.torch_backend`."""

    def backend(module: Any, inputs: Sequence[Any], mode: str | None = None, **_: Any) -> Any:
        return dynamo_backend(module, inputs, options=options, mode=mode)

    return backend
