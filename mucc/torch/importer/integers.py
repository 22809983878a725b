"""Which values of 64-bit integers kernels may take: an s32 holds indices, and of others nothing is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from mucc.torch.importer.capture import Captured, torch
from mucc.torch.importer.nodes import is_part, tensor_inputs
from mucc.torch.importer.partition import Node
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

SEEDS = (_aten._scaled_dot_product_efficient_attention_backward.default,)
"""Operations whose integers are numbers of random generators, which nothing reads without dropout. With it
they stay with PyTorch anyhow.
"""

LARGEST = 2**31 - 1
"""The largest integer that an s32 holds."""

_NUMBERING = frozenset((_aten.argmax, _aten.argmin, _aten.sort, _aten.topk, _aten.max, _aten.min))
"""What numbers elements along an axis, maybe beside values."""

_CHOOSING = ALIASES | {
    getattr(_aten, n)
    for n in (
        *("where", "cat", "stack", "clone", "flip", "roll", "repeat", "gather", "index", "index_select"),
        *("minimum", "maximum", "neg", "abs", "tril", "triu", "split_with_sizes", "unbind", "chunk", "clamp"),
    )
}
"""What returns integers no larger than the largest of its operands."""


def wide_integers(captured: Captured) -> Callable[[Node], str | None]:
    """Says why an operation stays with PyTorch that reads or makes an int64 that no s32 holds, or None."""
    bounds = _bounds(captured)

    def reason(node: Node) -> str | None:
        if node.target in SEEDS:
            return None
        position = INDICES.get(node.target, len(node.args))
        indices = torch.utils._pytree.tree_leaves(node.args[position : position + 1])
        integers = [n for n in tensor_inputs(node) if n not in indices and n in bounds]
        made = [node] if integers and node in bounds else []
        wide = any((bound := bounds[n]) is None or bound > LARGEST for n in (*integers, *made))
        return "integers of 64 bits" if wide else None

    return reason


def _bounds(captured: Captured) -> dict[Node, int | None]:
    """Return the largest magnitude of the elements of each int64 tensor; None where it is not known."""
    found: dict[Node, int | None] = {}
    for node in captured.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.dtype == torch.int64:
            found[node] = LARGEST if captured.is_small(node.name) else _bound(node, found)
    return found


def _bound(node: Node, known: Mapping[Node, int | None]) -> int | None:
    maker = node.args[0] if is_part(node) else node
    packet = getattr(maker.target, "overloadpacket", None)
    sizes = [_magnitude(a, known) for a in cast("tuple[Any, ...]", node.args)]
    if packet in (_aten.zeros, _aten.zeros_like, _aten.ones, _aten.ones_like):
        return 1
    if packet is _aten.arange:
        return _sum(sizes)
    if packet is torch.ops.prims.iota:
        given = [node.kwargs["start"], node.kwargs["step"], *node.args]
        whole = all(isinstance(n, int) for n in given)
        return abs(given[0]) + abs(given[1]) * given[2] if whole else None
    if packet in _NUMBERING:
        extents = maker.args[0].meta["val"].shape
        return max((e if isinstance(e, int) else LARGEST for e in extents), default=0)
    if packet is _aten.sum and (of := maker.args[0].meta["val"]).dtype == torch.bool:
        return LARGEST if any(not isinstance(e, int) for e in of.shape) else of.numel()
    if packet in (_aten.add, _aten.sub) and not node.kwargs:
        return _sum(sizes)
    if packet is _aten.mul:
        first, second = sizes
        return None if first is None or second is None else first * second
    if packet is _aten.floor_divide and isinstance(node.args[1], int) and node.args[1]:
        return sizes[0]
    if packet is _aten.remainder and isinstance(node.args[1], int):
        return sizes[1]
    if packet in _CHOOSING:
        of = [known[n] for n in tensor_inputs(maker) if n in known]
        of += [abs(a) for a in maker.args if isinstance(a, int) and packet is _aten.clamp]
        return None if None in of else max((n for n in of if n is not None), default=None)
    return None


def _magnitude(argument: Any, known: Mapping[Node, int | None]) -> int | None:
    """Return the largest magnitude of an argument: a tensor of integers, or a number."""
    if isinstance(argument, bool | int):
        return abs(int(argument))
    return known.get(argument) if isinstance(argument, torch.fx.Node) else None


def _sum(sizes: list[int | None]) -> int | None:
    """Return the sum of bounds; None where one is not known."""
    return None if None in sizes else sum(n for n in sizes if n is not None)
