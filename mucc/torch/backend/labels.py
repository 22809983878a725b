"""The rewrite of masks that compare int64 numbers, such as segments of packed sequences, to compare ranks.

Kernels compute with integers of 32 bits, and nothing is known of an int64 that is an argument. Two numbers
are equal where their ranks among all numbers are, and an s32 holds a rank. So a mask `rows == columns` of
attention, with `rows = segments[:, None, :, None]` and `columns = segments[:, None, None]`, becomes

    ordered = sort(reshape(segments, [-1])).values
    mask = searchsorted(ordered, rows, out_int32=True) == searchsorted(ordered, columns, out_int32=True)

and the kernel of attention skips keys with other numbers. Tensors of segments are sorted once, however many
layers read them.
"""

from __future__ import annotations

import operator
from typing import Any

from mucc.torch.importer.capture import torch
from mucc.torch.importer.partition import Node

_aten = torch.ops.aten

COMPARISONS = (_aten.eq.Tensor, _aten.ne.Tensor)

VIEWS = (
    *(getattr(_aten, name).default for name in ("alias", "clone", "expand", "permute", "reshape", "t")),
    *(getattr(_aten, name).default for name in ("unsqueeze", "view", "_unsafe_view")),
    *(_aten.slice.Tensor, _aten.transpose.int, _aten.select.int, _aten.squeeze.dim, _aten.squeeze.dims),
)
"""What takes elements of its first argument, each as it is."""

LEAST = 8
"""How many times the elements of its operands a mask has at least: smaller ones cost less than sorting."""

MOST = 1 << 31
"""The number of elements from which on an s32 does not hold their ranks."""


class Numbering:
    """Replaces operands of comparisons of int64 by their ranks; each tensor is sorted once for a graph."""

    def __init__(self, graph: Any):
        self.graph = graph
        self.ordered: dict[tuple[Node, ...], Node] = {}
        self.ranks: dict[tuple[Node, Node], Node] = {}

    def rewrite(self, node: Node) -> None:
        """Let a comparison read ranks. Comparisons are rewritten in the order of the graph."""
        roots = tuple(dict.fromkeys(_root(n) for n in node.args))
        with self.graph.inserting_before(node):
            ordered = self._sorted(roots)
            node.args = tuple(self._ranked(ordered, n) for n in node.args)

    def _sorted(self, roots: tuple[Node, ...]) -> Node:
        if roots not in self.ordered:
            flat = [self._call(_aten.reshape.default, root, [-1]) for root in roots]
            joined = flat[0] if len(flat) == 1 else self._call(_aten.cat.default, flat)
            found = self._call(_aten.sort.default, joined)
            self.ordered[roots] = self._call(operator.getitem, found, 0)
        return self.ordered[roots]

    def _ranked(self, ordered: Node, operand: Node) -> Node:
        if (ordered, operand) not in self.ranks:
            found = self._call(_aten.searchsorted.Tensor, ordered, operand, out_int32=True)
            self.ranks[ordered, operand] = found
        return self.ranks[ordered, operand]

    def _call(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """Insert a call, with the fake value that later passes read."""
        node = self.graph.call_function(target, args, kwargs)
        values, options = torch.fx.node.map_arg((args, kwargs), _value)
        tensors = [v for v in torch.utils._pytree.tree_leaves(values) if isinstance(v, torch.Tensor)]
        mode = next((t.fake_mode for t in tensors if hasattr(t, "fake_mode")), None)
        if target is operator.getitem or mode is None:
            node.meta["val"] = target(*values, **options)
        else:
            with mode:
                node.meta["val"] = target(*values, **options)
        return node


def _value(node: Node) -> Any:
    return node.meta["val"]


def number_labels(graph: Any, masks: list[Node]) -> int:
    """Rewrite the comparisons of int64 tensors that `masks` of attention are made of; returns how many."""
    behind: set[Node] = set()
    waiting = list(masks)
    while waiting:
        node = waiting.pop()
        if node not in behind:
            behind.add(node)
            waiting += node.all_input_nodes
    found = [n for n in graph.nodes if n in behind and _is_wide(n)]
    numbering = Numbering(graph)
    for node in found:
        numbering.rewrite(node)
    return len(found)


def _is_wide(node: Node) -> bool:
    """Whether a node compares int64 tensors that are much smaller than the mask which it makes."""
    if node.target not in COMPARISONS or not all(isinstance(n, torch.fx.Node) for n in node.args):
        return False
    values = [n.meta.get("val") for n in (node, *node.args, *map(_root, node.args))]
    if not all(isinstance(v, torch.Tensor) and all(isinstance(d, int) for d in v.shape) for v in values):
        return False
    made, *operands = values
    elements = sum(v.numel() for v in operands[2:])
    are_wide = all(v.dtype == torch.int64 for v in operands)
    smaller = sum(v.numel() for v in operands[:2])
    return are_wide and 0 < elements < MOST and LEAST * (smaller + elements) <= made.numel()


def _root(node: Node) -> Node:
    """Return the tensor whose elements a node has, behind views."""
    while node.target in VIEWS:
        node = node.args[0]
    return node
