"""Count the work of a node, operations and bytes, for shares of the whole."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from mucc.torch.importer.capture import quiet, torch
from mucc.torch.importer.counting import Count, count_of
from mucc.torch.importer.extents import typical


@dataclass(frozen=True)
class Work:
    """Arithmetic operations, and bytes read and written when the node runs alone."""

    operations: int = 0
    bytes: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.operations + other.operations, self.bytes + other.bytes)


_aten = torch.ops.aten

VIEWS = frozenset(
    getattr(_aten, name)
    for name in ("view", "reshape", "_unsafe_view", "squeeze", "unsqueeze", "expand", "flatten", "unflatten")
)
"""What torch does without touching memory, on contiguous tensors."""

ALIASES = VIEWS | {
    getattr(_aten, n) for n in ("permute", "transpose", "t", "slice", "select", "split", "alias")
}
"""What torch does without touching memory, whose results may not be contiguous."""


def work_of(node: Any) -> Work:
    """Products are counted as torch.utils.flop_counter does, views not at all.

    All else is counted as `counting` does, and once an element where that does not understand it.
    """
    if getattr(node.target, "overloadpacket", None) in ALIASES:
        return Work()
    results = _tensors(node.meta.get("val"))
    operands = [t for n in node.all_input_nodes for t in _tensors(n.meta.get("val"))]
    moved = sum(_count(t) * t.element_size() for t in (*results, *operands))
    largest = max((_count(t) for t in (*results, *operands)), default=0)
    return Work(_products(node) or _at_least(count_of(node), largest), moved)


def _at_least(count: Count | None, elements: int) -> int:
    """Return the operations of a count, but not fewer than there are elements."""
    return max(count.operations if count is not None else 0, elements)


def _tensors(value: Any) -> list[Any]:
    values = cast("list[Any]", value) if isinstance(value, tuple | list) else [value]
    return [v for v in values if isinstance(v, torch.Tensor)]


def _sizes(tensor: Any) -> list[int]:
    """Return the shape, with the usual sizes of open extents."""
    return [typical(d) for d in tensor.shape]


def _count(tensor: Any) -> int:
    return math.prod(_sizes(tensor))


def is_product(node: Any) -> bool:
    """Whether a node is a matrix product or a convolution."""
    if _products(node) > 0:
        return True
    count = count_of(node)
    return count is not None and bool(count.products)


def _products(node: Any) -> int:
    """Multiplications and additions of a product or a convolution; 0 for anything else."""
    shape = [
        _sizes(a.meta["val"]) if isinstance(a, torch.fx.Node) and hasattr(a.meta.get("val"), "shape") else a
        for a in node.args
    ]
    match node.target:
        case _aten.linear.default:
            return 2 * math.prod(shape[0]) * shape[1][0]
        case _aten.matmul.default:
            return 2 * math.prod(_sizes(node.meta["val"])) * shape[0][-1]
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
        return int(registry[packet](*args, **kwargs, out_val=_given(node)))


def _given(argument: Any) -> Any:
    """Return a formula's value for an argument: of tensors their shapes."""
    match argument:
        case torch.fx.Node():
            return _given(argument.meta.get("val"))
        case torch.Tensor():
            return tuple(_sizes(argument))
        case list() | tuple():
            return tuple(_given(a) for a in cast("Sequence[Any]", argument))
        case torch.SymInt():
            return typical(argument)
        case _:
            return argument
