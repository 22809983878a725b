"""Replace reads and writes at known places that lie evenly, such as `x[:, [-2]]`, by those of slices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from mucc.torch.importer.capture import torch
from mucc.torch.importer.extents import typical
from mucc.torch.importer.known_values import KnownValues
from mucc.torch.importer.nodes import called

Node = Any
_aten = torch.ops.aten

BEYOND = 2**63 - 1
"""The end that torch gives a slice without one."""

MOST = 1 << 16
"""The most places that are looked at."""

KEPT = ("partitioner_tag", "recompute", "ac_graph_id", "stack_trace")
"""What AOTAutograd's partitioner reads of a node, and errors show."""


class Places(NamedTuple):
    """Places along an axis that lie evenly: `length` from `first` on, `step` apart, 0 where all are one."""

    axis: int
    first: int
    step: int
    length: int

    def bounds(self) -> tuple[int, int, int]:
        """Return start, end and step of a slice of the places in ascending order."""
        last = self.first + (self.length - 1) * self.step
        low, high = min(self.first, last), max(self.first, last)
        return low, BEYOND if high == -1 else high + 1, max(abs(self.step), 1)


def slice_known_indices(graph: Any, known: KnownValues) -> int:
    """Rewrite indexing by one known vector whose numbers lie evenly; returns how many calls were rewritten.

    ```
    index(x, [None, [5, 3, 1]])             -> clone(flip(slice(x, 1, 1, 6, 2), [1]))
    index_put(x, [None, [1, 2]], y)         -> slice_scatter(x, y, 1, 1, 3)
    index_put(x, [None, [1, 2]], y, True)   -> slice_scatter(x, slice(x, 1, 1, 3) + y, 1, 1, 3)
    ```
    """
    rewritten = 0
    for node in list(graph.nodes):
        if node.op != "call_function" or (places := _places(node, known)) is None:
            continue
        with graph.inserting_before(node):
            made = _written(graph, node, places) if node.target in _WRITES else _read(graph, node, places)
        if made is None:
            continue
        name = node.name
        node.replace_all_uses_with(made)
        _erase(graph, node)
        made.name = name
        rewritten += 1
    return rewritten


def _erase(graph: Any, node: Node) -> None:
    """Erase a call, and the calls that only it read the values of."""
    read = node.all_input_nodes
    graph.erase_node(node)
    for source in read:
        if source.op == "call_function" and not source.users:
            _erase(graph, source)


_READS = (_aten.index.Tensor, _aten.index_select.default)
_WRITES = (_aten.index_put.default,)


def _places(node: Node, known: KnownValues) -> Places | None:
    """Return the places that a node reads or writes, if they are known and lie evenly."""
    if node.target not in (*_READS, *_WRITES) or not isinstance(node.args[0].meta.get("val"), torch.Tensor):
        return None
    shape = node.args[0].meta["val"].shape
    if node.target is _aten.index_select.default:
        _, axis, index = node.args
        axis %= max(len(shape), 1)
    else:
        given = [axis for axis, index in enumerate(node.args[1]) if index is not None]
        if len(given) != 1:
            return None
        axis, index = given[0], node.args[1][given[0]]
    value = index.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dim() != 1 or value.is_floating_point() or not shape:
        return None
    if value.dtype in (torch.bool, torch.uint8) or not (
        isinstance(n := value.shape[0], int) and 0 < n <= MOST
    ):
        return None
    try:
        numbers: list[int] | None = known.told(index, lambda v: v.tolist())
    except Exception:  # a device that is not there
        return None
    return None if numbers is None else _even(numbers, axis, shape[axis])


def _even(numbers: Sequence[int], axis: int, extent: Any) -> Places | None:
    """Return numbers as places if they lie evenly, within an axis; those from its end may be negative."""
    if isinstance(extent, int):
        if not all(-extent <= n < extent for n in numbers):
            return None
        numbers = [n % extent for n in numbers]
    elif min(numbers) < 0 <= max(numbers):
        return None
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    if any(b - a != step for a, b in pairwise(numbers)):
        return None
    return Places(axis, numbers[0], step, len(numbers))


def _read(graph: Any, node: Node, places: Places) -> Node:
    """Append the elements that a node reads, in memory of their own that lies as the node's does."""
    like, result = node.args[0].meta["val"], node.meta["val"]
    made = _slice(graph, node.args[0], places)
    if places.step < 0:
        made = called(graph, like, _aten.flip.default, made, [places.axis])
    if places.step == 0:
        made = called(graph, like, _aten.expand.default, made, [*result.shape])
    axes = range(result.dim())
    order = sorted(axes, key=lambda axis: -typical(result.stride(axis)))
    if moved := order != [*axes]:
        made = called(graph, like, _aten.permute.default, made, order)
    made = called(graph, like, _aten.clone.default, made, memory_format=torch.contiguous_format)
    if moved:
        made = called(graph, like, _aten.permute.default, made, [order.index(axis) for axis in axes])
    made.meta |= {key: node.meta[key] for key in KEPT if key in node.meta}
    return made


def _slice(graph: Any, x: Node, places: Places) -> Node:
    return called(graph, x.meta["val"], _aten.slice.Tensor, x, places.axis, *places.bounds())


def _written(graph: Any, node: Node, places: Places) -> Node | None:
    """Append a tensor with other elements at the places of a node; None where one place is written often."""
    x, _, new, *rest = node.args
    if places.step == 0 or new.meta["val"].dtype != (like := x.meta["val"]).dtype:
        return None
    old = _slice(graph, x, places)
    shape = [*old.meta["val"].shape]
    if [*new.meta["val"].shape] != shape:
        new = called(graph, like, _aten.expand.default, new, shape)
    if places.step < 0:
        new = called(graph, like, _aten.flip.default, new, [places.axis])
    if rest and rest[0]:
        new = called(graph, like, _aten.add.Tensor, old, new)
    made = called(graph, like, _aten.slice_scatter.default, x, new, places.axis, *places.bounds())
    made.meta |= {key: node.meta[key] for key in KEPT if key in node.meta}
    return made
