"""Which values of 64-bit integers kernels may take: an s32 holds indices, and of others nothing is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mucc.torch.importer.capture import Captured, torch
from mucc.torch.importer.partition import Node, tensor_inputs
from mucc.torch.importer.work import ALIASES

_aten = torch.ops.aten

INDICES: dict[Any, int] = {
    _aten.embedding.default: 1,
    _aten.gather.default: 2,
    _aten.index_select.default: 2,
    _aten.index.Tensor: 1,
    _aten.cross_entropy_loss.default: 1,
}
"""The position of the argument that is an index: extents are below 2³¹, and so is an index that is valid."""

_COUNTING = frozenset((_aten.arange, _aten.argmax, _aten.argmin, _aten.zeros, _aten.zeros_like))
"""What makes integers that number elements, so that an s32 holds them."""


def wide_integers(captured: Captured) -> Callable[[Node], str | None]:
    """Says why an operation stays with PyTorch that reads an int64 of any value, or None."""

    def reason(node: Node) -> str | None:
        position = INDICES.get(node.target, len(node.args))
        indices = torch.utils._pytree.tree_leaves(node.args[position : position + 1])
        wide = any(n not in indices and _is_wide(captured, n) for n in tensor_inputs(node))
        return "integers of 64 bits" if wide else None

    return reason


def _is_wide(captured: Captured, node: Node) -> bool:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype != torch.int64:
        return False
    while getattr(node.target, "overloadpacket", None) in ALIASES and node.args[0].op == "call_function":
        node = node.args[0]
    return getattr(node.target, "overloadpacket", None) not in _COUNTING and not captured.is_small(node.name)
