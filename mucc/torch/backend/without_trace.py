"""Run a model by a backend that only looks at it, and leave no trace of that.

Memory that its graphs change, random numbers, and what torch.compile has compiled of it are as before.
"""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from mucc.torch.backend.verified import written
from mucc.torch.importer.capture import torch

_pgo: Any = importlib.import_module("torch._dynamo.pgo")
_fake_tensor: Any = importlib.import_module("torch._subclasses.fake_tensor")

UNKNOWN = (_fake_tensor.DynamicOutputShapeException, _fake_tensor.DataDependentOutputException)
"""What operations raise on fake tensors whose extents depend on values."""

ISOLATED = "isolate_recompiles"
"""The argument of torch.compile, from torch 2.13 on, that gives a call a cache and a limit of its own."""


def compile_apart(model: Any, backend: Callable[..., Any], **options: Any) -> Any:
    """Compile a model apart from other compilations of its functions, where this version of torch can.

    Otherwise dynamo counts it among the recompilations of these, and calls them eagerly beyond a limit.
    """
    if ISOLATED in inspect.signature(torch.compile).parameters:
        options[ISOLATED] = True
    return torch.compile(model, backend=backend, **options)


class Memory:
    """Tensors that graphs change, with their values before."""

    def __init__(self) -> None:
        self.kept: list[tuple[Any, Any]] = []

    def keep(self, module: Any, arguments: Sequence[Any]) -> None:
        """Copy the arguments that a graph of dynamo is going to change."""
        try:
            changed = [arguments[n] for n in written(module, arguments)]
        except UNKNOWN:  # it may be any of them, but for leaves with gradients, which it cannot change
            changed = [a for a in arguments if isinstance(a, torch.Tensor) and not a.requires_grad]
        self.kept += [(t, t.detach().clone()) for t in changed]

    def restore(self) -> None:
        """Write all values back, those of the first graph last."""
        for tensor, value in reversed(self.kept):
            with torch.inference_mode(tensor.is_inference()), torch.no_grad():
                tensor.copy_(value)
        self.kept.clear()


@contextmanager
def without_trace(memory: Memory) -> Generator[None]:
    """Restore memory, the state of random numbers, and what dynamo knows of sizes, at the end.

    An extent that differs from that of a call before is open to dynamo: this call is none.
    """
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    sizes = copy.deepcopy(dict(_pgo.get_code_state()))
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            memory.restore()
            state = _pgo.get_code_state()
            state.clear()
            state.update(sizes)
