"""Replace reads and writes of memory by number: results of kernels have strides of their own."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from mucc.torch.importer.capture import Captured, torch
from mucc.torch.importer.nodes import called
from mucc.torch.importer.partition import returned

Node = Any

_aten = torch.ops.aten
_READS = frozenset((_aten.as_strided, _aten.as_strided_copy))
_WRITES = frozenset((_aten.as_strided_scatter,))


def take_strided(captured: Captured) -> None:
    """Rewrite `as_strided` and `as_strided_scatter` to elements that are taken and put by number.

    ```
    as_strided(permute(y, (1, 0)), size, strides, at)
    ->
    index(reshape(permute(y, memory order), (-1,)), at + sum of arange(size[i]) * strides[i])
    ```

    `as_strided` of an argument, or of a view of one, becomes that of the argument itself: PyTorch reads the
    memory that a call gives.
    """
    nodes = [n for n in captured.graph.nodes if _packet(n) in _READS | _WRITES]
    rewriting = _Rewriting(captured, {node: _base(node.args[0]) for node in nodes})
    for node in nodes:
        rewriting.take(node)


def _packet(node: Node) -> Any:
    return getattr(node.target, "overloadpacket", None)


def _base(node: Node) -> Node:
    """Return the value whose memory a node reads."""
    while is_view(node):
        node = node.args[0]
    return node


_MAY_COPY = frozenset((_aten.reshape, _aten.contiguous))


def is_view(node: Node) -> bool:
    """Whether a node is a view of its first operand's memory, of the same dtype."""
    if node.target is operator.getitem:
        return is_view(node.args[0])
    results = getattr(getattr(node.target, "_schema", None), "returns", ())
    if len(results) != 1 or results[0].alias_info is None or _packet(node) in _MAY_COPY:
        return False
    value: Any = torch.utils._pytree.tree_leaves(node.meta["val"])[0]
    return value.dtype == node.args[0].meta["val"].dtype


class _Rewriting:
    """The rewriting of a graph. `bases` are the values whose memory the nodes to rewrite read."""

    def __init__(self, captured: Captured, bases: dict[Node, Node]):
        self.graph, self.bases = captured.graph, bases
        self.leaving = set(returned(captured))
        self.memory: dict[Node, Node] = {}
        """The memory of values, as vectors, where it is known already."""

    def take(self, node: Node) -> None:
        """Rewrite a node, unless its extents are open or the memory that it reads has gaps."""
        is_write = _packet(node) in _WRITES
        source, base = node.args[0], self.bases[node]
        size, strides, *rest = node.args[1 + is_write :]
        at = rest[0] if rest else node.kwargs.get("storage_offset")
        at = source.meta["val"].storage_offset() if at is None else at
        numbers = (*size, *strides, at, *base.meta["val"].shape, *source.meta["val"].shape)
        if source.op == "placeholder" or not all(isinstance(n, int) for n in numbers):
            return
        if not is_write and self._is_only_rewritten(node):
            return
        with self.graph.inserting_before(node):
            if base.op == "placeholder" and not is_write:
                made = called(self.graph, base.meta["val"], node.target, base, [*size], [*strides], at)
            elif (flat := self._flat(base)) is None:
                return
            elif is_write:
                made = self._written(node, flat, _places(self.graph, flat.meta["val"], size, strides, at))
            else:
                made = self._read(flat, size, strides, at)
        self._replace(node, made)

    def _is_only_rewritten(self, node: Node) -> bool:
        """Whether a view leads only to reads of the same memory, each of which is rewritten without it."""
        return node.name not in self.leaving and all(
            (user in self.bases and user.args[0] is node and node not in user.args[1:])
            or (is_view(user) and user not in self.bases and self._is_only_rewritten(user))
            for user in node.users
        )

    def _flat(self, base: Node) -> Node | None:
        """Append the memory of a value as a vector; None where it has gaps."""
        if base in self.memory:
            return self.memory[base]
        value = base.meta["val"]
        if base.op == "placeholder":
            most = sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))
            extent = value.storage_offset() + 1 + most if value.numel() else 0
            return called(self.graph, value, _aten.as_strided.default, base, [extent], [1], 0)
        order = sorted(range(value.dim()), key=lambda axis: -value.stride(axis))
        if value.storage_offset() or not value.permute(order).is_contiguous():
            return None
        flat = called(self.graph, value, _aten.permute.default, base, order)
        return called(self.graph, value, _aten.reshape.default, flat, [-1])

    def _read(self, flat: Node, size: Sequence[int], strides: Sequence[int], at: int) -> Node:
        """Append the elements of a view of memory."""
        like = flat.meta["val"]
        places = _places(self.graph, like, size, strides, at)
        return called(self.graph, like, _aten.index.Tensor, flat, [places])

    def _written(self, node: Node, flat: Node, places: Node) -> Node:
        """Append a view of a copy of memory in which the elements of `places` are others."""
        like, new, shown = flat.meta["val"], node.args[1], node.args[0].meta["val"]
        if new.meta["val"].dtype != like.dtype:
            new = called(self.graph, like, _aten._to_copy.default, new, dtype=like.dtype)
        put = called(self.graph, like, _aten.index_put.default, flat, [places], new)
        if shown.is_contiguous() and shown.numel() == like.numel():
            made = called(self.graph, like, _aten.reshape.default, put, [*shown.shape])
        else:
            made = self._read(put, shown.shape, shown.stride(), shown.storage_offset())
        self.memory[made] = put
        for reader, base in self.bases.items():
            if base is node:
                self.bases[reader] = made
        return made

    def _replace(self, node: Node, made: Node) -> None:
        """Put a value in place of a node, and drop the views that only the node read."""
        name, source = node.name, node.args[0]
        node.replace_all_uses_with(made)
        self.graph.erase_node(node)
        made.name = name
        while is_view(source) and not source.users and source.name not in self.leaving:
            unused, source = source, source.args[0]
            self.graph.erase_node(unused)


def _places(graph: Any, like: Any, size: Sequence[int], strides: Sequence[int], at: int) -> Node:
    """Append the number in memory of each element."""
    options = {"dtype": torch.int64, "device": like.device}
    found = called(graph, like, _aten.full.default, [], at, **options)
    for axis, (extent, stride) in enumerate(zip(size, strides, strict=True)):
        numbers = called(graph, like, _aten.arange.default, extent, **options)
        steps = called(graph, like, _aten.mul.Tensor, numbers, stride)
        steps = called(graph, like, _aten.reshape.default, steps, [extent, *[1] * (len(size) - axis - 1)])
        found = called(graph, like, _aten.add.Tensor, found, steps)
    return found
