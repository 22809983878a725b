"""What Inductor makes of an operation: code of its own, which it fuses with others, a view, or a call."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, cast

from mucc.torch.importer.capture import torch
from mucc.torch.importer.counting import MOVING, REDUCING, bytes_of
from mucc.torch.importer.extents import typical
from mucc.torch.importer.nodes import is_part
from mucc.torch.importer.partition import Node
from mucc.torch.importer.work import ALIASES

POOLING = "_low_memory_max_pool"
"""The beginning of the names of Inductor's pools of small windows, computed as pointwise operations are:
its code fuses them with what comes behind, and with what comes before if that reads a single value."""

AVERAGES = frozenset(f"avg_pool{rank}d" for rank in (1, 2, 3))
LARGEST_WINDOW = 25
"""The most elements of windows that overlap for which Inductor makes code of its own."""


def is_fused(node: Node) -> bool:
    """Whether Inductor makes code of its own for an operation, which it fuses with others around it."""
    if is_part(node):
        return True
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    name = node.target.overloadpacket.__name__
    is_made = name in MOVING or name in REDUCING or name.startswith(POOLING) or _is_average(node, name)
    return is_made or torch.Tag.pointwise in node.target.tags


def is_reduction(node: Node) -> bool:
    """Whether an operation combines elements of its operand, as sums and scans do."""
    packet = getattr(node.target, "overloadpacket", None)
    return packet is not None and packet.__name__ in REDUCING


def is_pool(node: Node) -> bool:
    """Whether Inductor's code for an operation reads elements of its operand several times, or by windows."""
    packet = getattr(node.target, "overloadpacket", None)
    name = "" if packet is None else packet.__name__
    return name.startswith(POOLING) or _is_average(node, name)


def _is_average(node: Node, name: str) -> bool:
    """Whether a node is a pool of means for which Inductor makes code: windows are small, or side by side."""
    if name in AVERAGES:
        window = node.args[1]
        strides = node.args[2] if len(node.args) > 2 else node.kwargs.get("stride")
        return list(strides or window) == list(window) or prod(window) <= LARGEST_WINDOW
    if name != "_adaptive_avg_pool2d":
        return False
    extents = [typical(e) for e in node.args[0].meta["val"].shape[-2:]]
    axes = [(e, typical(n)) for e, n in zip(extents, node.args[1], strict=True)]
    if any(n == 0 for _, n in axes):
        return False
    return all(e % n == 0 for e, n in axes) or prod(-((1 - e - n) // n) for e, n in axes) <= LARGEST_WINDOW


def is_view(node: Node) -> bool:
    """Whether a value lies in the memory of its operand."""
    return is_part(node) or getattr(node.target, "overloadpacket", None) in ALIASES


def origin_of(node: Node) -> Node:
    """Return the node that makes the memory which a value lies in."""
    while node.op == "call_function" and is_view(node) and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def values_of(node: Node) -> list[Any]:
    """Return the values of a node: of several where it makes a tuple."""
    value = node.meta.get("val")
    return list(cast("Sequence[Any]", value)) if isinstance(value, tuple | list) else [value]


def bytes_of_values(node: Node) -> int:
    """Return the bytes of the tensors that a node of a torch.fx graph returns, all together."""
    return sum(bytes_of(v) for v in values_of(node))
