"""Replace `as_strided` by elements that are taken by number: results of kernels have strides of their own."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from mucc.torch.importer.capture import Captured, torch
from mucc.torch.importer.partition import returned
from mucc.torch.importer.work import ALIASES

Node = Any

_aten = torch.ops.aten
_STRIDED = frozenset((_aten.as_strided, _aten.as_strided_copy))


def take_strided(captured: Captured) -> None:
    """Rewrite each `as_strided` of what is computed or viewed to an index of all elements in memory order.

    ```
    as_strided(permute(y, (1, 0)), size, strides, at)
    ->
    index(reshape(permute(y, memory order), (-1,)), at + sum of arange(size[i]) * strides[i])
    ```

    That of an argument itself stays: PyTorch reads the memory that a call gives.
    """
    leaving = set(returned(captured))
    for node in list(captured.graph.nodes):
        if getattr(node.target, "overloadpacket", None) in _STRIDED:
            _take(captured.graph, node, leaving)


def _take(graph: Any, node: Node, leaving: Set[str]) -> None:
    source, size, strides, *rest = node.args
    at = rest[0] if rest else node.kwargs.get("storage_offset")
    at = source.meta["val"].storage_offset() if at is None else at
    base = source
    while getattr(base.target, "overloadpacket", None) in ALIASES:
        base = base.args[0]
    numbers = (*size, *strides, at, *base.meta["val"].shape)
    if source.op == "placeholder" or not all(isinstance(n, int) for n in numbers):
        return
    value = base.meta["val"]
    order = sorted(range(value.dim()), key=lambda axis: -value.stride(axis))
    if value.storage_offset() or not value.permute(order).is_contiguous():
        return
    with graph.inserting_before(node):
        flat = _called(graph, value, _aten.permute.default, base, order)
        flat = _called(graph, value, _aten.reshape.default, flat, [-1])
        taken = _called(graph, value, _aten.index.Tensor, flat, [_places(graph, value, size, strides, at)])
    name = node.name
    node.replace_all_uses_with(taken)
    graph.erase_node(node)
    taken.name = name
    while source is not base and not source.users and source.name not in leaving:
        unused, source = source, source.args[0]
        graph.erase_node(unused)


def _places(graph: Any, like: Any, size: Sequence[int], strides: Sequence[int], at: int) -> Node:
    """Append the number in memory of each element."""
    options = {"dtype": torch.int64, "device": like.device}
    found = _called(graph, like, _aten.full.default, [], at, **options)
    for axis, (extent, stride) in enumerate(zip(size, strides, strict=True)):
        numbers = _called(graph, like, _aten.arange.default, extent, **options)
        steps = _called(graph, like, _aten.mul.Tensor, numbers, stride)
        steps = _called(graph, like, _aten.reshape.default, steps, [extent, *[1] * (len(size) - axis - 1)])
        found = _called(graph, like, _aten.add.Tensor, found, steps)
    return found


def _called(graph: Any, like: Any, target: Any, *args: Any, **options: Any) -> Node:
    """Append a call, with the value that it makes of fake tensors, in the mode of `like`."""
    made = graph.call_function(target, args, options)
    values = torch.utils._pytree.tree_map(_value, args)
    with like.fake_mode:
        made.meta["val"] = target(*values, **options)
    return made


def _value(argument: Any) -> Any:
    return argument.meta["val"] if isinstance(argument, torch.fx.Node) else argument
