"""Give calls of attention four axes, which PyTorch's fused kernels take.

PyTorch takes attention of other tensors apart, into products and a softmax in f32, forward and backward.
"""

from __future__ import annotations

from typing import Any

from mucc.torch.backend.examples import method_call, strided_example
from mucc.torch.backend.layouts import ATTENTION, NAME, PLACE
from mucc.torch.importer.capture import torch

AXES = 4
"""Batches, heads, rows and the elements of a row."""

NAMES = ("query", "key", "value", NAME, "dropout_p")
"""The first parameters of a call of attention, in order."""

Method = tuple[Any, ...]
"""A call of a tensor's method: its name, then its arguments."""


def give_four_axes(module: Any) -> int:
    """Insert or merge leading axes of attention in a graph of dynamo; returns the number of calls.

    Calls with dropout stay, since fused kernels draw other numbers.
    """
    calls = [node for node in module.graph.nodes if node.op == "call_function" and node.target is ATTENTION]
    changed = [node for node in calls if _changed(node)]
    if changed:
        module.recompile()
    return len(changed)


def _changed(node: Any) -> bool:
    """Give a call of attention four axes; returns False where it has them or cannot get them."""
    given = {**dict(zip(NAMES, node.args, strict=False)), **node.kwargs}
    operands = [_tensor(given.get(name)) for name in NAMES[:PLACE]]
    mask = _tensor(given.get(NAME))
    is_known = (mask is not None or given.get(NAME) is None) and all(v is not None for v in operands)
    if given.get("dropout_p") or not is_known or len({v.dim() for v in operands}) > 1:
        return False
    lead, rank = tuple(operands[0].shape[:-3]), operands[0].dim()
    if rank < AXES:
        _replace(node, given, rank, [("unsqueeze", 0)] * (AXES - rank), [("squeeze", 0)] * (AXES - rank))
    elif rank > AXES and _can_merge(lead, operands, mask):
        merge, split = ("flatten", 0, len(lead) - 1), ("unflatten", 0, (-1, *lead[1:]))
        _replace(node, given, rank, [merge], [split])
    else:
        return False
    return True


def _tensor(node: Any) -> Any:
    """Return the fake tensor of a node that has rows and columns; None of anything else."""
    value = strided_example(node)
    return value if value is not None and value.dim() > 1 else None


def _can_merge(lead: tuple[Any, ...], operands: list[Any], mask: Any) -> bool:
    """Whether leading axes are those of all operands, and of a mask that has them, of known extents."""
    known = all(isinstance(extent, int) for extent in lead[1:])
    of_mask = () if mask is None else tuple(mask.shape[:-3])
    fits = of_mask == lead or all(extent == 1 for extent in of_mask)
    return known and fits and all(tuple(v.shape[:-3]) == lead for v in operands)


def _replace(node: Any, given: dict[str, Any], rank: int, before: list[Method], behind: list[Method]) -> None:
    """Apply methods to operands of a call that have as many axes as the queries, and to its result."""
    graph, made = node.graph, dict[Any, Any]()
    with graph.inserting_before(node):
        for operand in (given.get(name) for name in NAMES[: PLACE + 1]):
            if operand is not None and operand not in made and _tensor(operand).dim() >= rank:
                made[operand] = _applied(operand, before)

        def operand_of(given: Any) -> Any:
            return made.get(given, given)

        args, options = torch.fx.node.map_arg((node.args, node.kwargs), operand_of)
        result = _applied(graph.call_function(ATTENTION, args, options), behind)
    result.meta.update(node.meta)
    node.replace_all_uses_with(result)
    graph.erase_node(node)


def _applied(node: Any, methods: list[Method]) -> Any:
    for name, *arguments in methods:
        node = method_call(node, name, *arguments)
    return node
