"""The work of one node: operations and bytes, so that what stays with PyTorch can be told as a share."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import Any, cast

from mucc.frontend.torch_import.capture import quiet, torch


@dataclass(frozen=True)
class Work:
    """Arithmetic operations, and bytes read and written when the node runs alone."""

    operations: int = 0
    bytes: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.operations + other.operations, self.bytes + other.bytes)


_aten = torch.ops.aten

VIEWS = {
    getattr(_aten, name)
    for name in ("view", "reshape", "_unsafe_view", "squeeze", "unsqueeze", "expand", "flatten", "unflatten")
}
"""What torch does without touching memory, on contiguous tensors."""

_FREE = VIEWS | {
    getattr(_aten, n) for n in ("permute", "transpose", "t", "slice", "select", "split", "alias")
}


def work_of(node: Any) -> Work:
    """Products are counted as torch.utils.flop_counter does, views not at all, the rest once an element."""
    if getattr(node.target, "overloadpacket", None) in _FREE:
        return Work()
    results = _tensors(node.meta.get("val"))
    operands = [t for n in node.all_input_nodes for t in _tensors(n.meta.get("val"))]
    moved = sum(_count(t) * t.element_size() for t in (*results, *operands))
    largest = max((_count(t) for t in (*results, *operands)), default=0)
    return Work(_products(node) or largest, moved)


def _tensors(value: Any) -> list[Any]:
    values = cast("list[Any]", value) if isinstance(value, tuple | list) else [value]
    return [v for v in values if isinstance(v, torch.Tensor)]


def _count(tensor: Any) -> int:
    return math.prod(d if isinstance(d, int) else 1 for d in tensor.shape)


def _products(node: Any) -> int:
    """Multiplications and additions of a product or a convolution; 0 for anything else."""
    shape = [
        a.meta["val"].shape if isinstance(a, torch.fx.Node) and hasattr(a.meta.get("val"), "shape") else a
        for a in node.args
    ]
    match node.target:
        case _aten.linear.default:
            return 2 * math.prod(shape[0]) * shape[1][0]
        case _aten.matmul.default:
            return 2 * math.prod(node.meta["val"].shape) * shape[0][-1]
        case _aten.scaled_dot_product_attention.default:
            q, k, v = shape[:3]
            return 2 * math.prod(q[:-1]) * k[-2] * (q[-1] + v[-1])
        case _:
            return _registered(node)


def _registered(node: Any) -> int:
    registry: Any = importlib.import_module("torch.utils.flop_counter").flop_registry
    packet = getattr(node.target, "overloadpacket", None)
    if packet not in registry:
        return 0
    args = [_given(a) for a in node.args]
    kwargs = {k: _given(v) for k, v in node.kwargs.items()}
    with quiet():
        return int(registry[packet](*args, **kwargs, out_val=node.meta["val"]))


def _given(argument: Any) -> Any:
    return argument.meta["val"] if isinstance(argument, torch.fx.Node) else argument
