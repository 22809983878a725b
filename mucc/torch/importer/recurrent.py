"""Shapes of recurrent layers, so that capturing one does not walk through its time steps.

torch has no rule of shapes for these operations: it computes them on fake tensors step by step, and often.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

torch: Any = importlib.import_module("torch")
FakeTensor: Any = importlib.import_module("torch._subclasses.fake_tensor").FakeTensor

_aten = torch.ops.aten
RECURRENT = (_aten.lstm.input, _aten.gru.input, _aten.rnn_tanh.input, _aten.rnn_relu.input)


def shapes(x: Any, states: Sequence[Any], bidirectional: bool, batch_first: bool) -> tuple[Any, ...]:
    """Tensors like the results: [steps, batch, features], or [batch, steps, features], and the states."""
    hidden = states[0]
    features = hidden.shape[-1] * (2 if bidirectional else 1)
    steps, batch = (x.shape[1], x.shape[0]) if batch_first else (x.shape[0], x.shape[1])
    out = x.new_empty((steps, batch, features))
    return (out.transpose(0, 1) if batch_first else out, *(s.new_empty(s.shape) for s in states))


def _rule(original: Callable[..., Any]) -> Callable[..., Any]:
    def rule(
        x: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, *rest: Any
    ) -> Any:
        if not isinstance(x, FakeTensor):
            return original(x, hx, params, has_biases, num_layers, dropout, *rest)
        _, bidirectional, batch_first = rest
        states = cast("Sequence[Any]", hx) if isinstance(hx, tuple | list) else [hx]
        return shapes(x, states, bidirectional, batch_first)

    return rule


@contextmanager
def recurrent_shapes() -> Generator[None]:
    """Have torch know the shapes of recurrent layers on fake tensors meanwhile."""
    keys = (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd)
    places = [(op.py_kernels, key) for op in RECURRENT for key in keys]
    places += [(torch._decomp.decomposition_table, op) for op in RECURRENT]
    saved = [(table, key, table[key]) for table, key in places if key in table]
    try:
        for table, key, original in saved:
            table[key] = _rule(original)
        _forget()
        yield
    finally:
        for table, key, original in saved:
            table[key] = original
        _forget()


def _forget() -> None:
    """Have torch look for kernels anew."""
    for op in RECURRENT:
        op._dispatch_cache.clear()
