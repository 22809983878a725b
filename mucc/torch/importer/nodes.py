"""Tell kinds of nodes of graphs apart (extents, parts of tuples, calls in order), and append calls."""

from __future__ import annotations

import operator
from typing import Any

from mucc.torch.importer.capture import torch

Node = Any


def tensor_inputs(node: Node) -> list[Node]:
    """Return the nodes among a node's arguments, each once, without extents."""
    return [n for n in dict.fromkeys(node.all_input_nodes) if not is_extent(n)]


def is_extent(node: Node) -> bool:
    """Whether a node is a number that follows from shapes, which the host computes."""
    return isinstance(node.meta.get("val"), int | float | torch.SymInt | torch.SymFloat | torch.SymBool)


def is_host(node: Node) -> bool:
    """Whether a node is about extents only: computes one, or checks them. Reading a tensor is more."""
    if "_local_scalar_dense" in str(node.target):
        return False
    return is_extent(node) or "_assert" in str(node.target) or "sym_constrain" in str(node.target)


def keeps_place(node: Node) -> bool:
    """Whether a call must stay behind the last one of its kind: it draws random numbers, or has effects."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return isinstance(node.target, torch._ops.HigherOrderOperator)
    return torch.Tag.nondeterministic_seeded in node.target.tags or node.target._schema.is_mutable


def is_part(node: Node) -> bool:
    """Whether a node only takes one of several values of another."""
    return node.target is operator.getitem


def called(graph: Any, like: Any, target: Any, *args: Any, **options: Any) -> Node:
    """Append a call, with the value that it makes of fake tensors, in the mode of `like`."""
    made = graph.call_function(target, args, options)
    values = torch.utils._pytree.tree_map(_value, args)
    with like.fake_mode:
        made.meta["val"] = target(*values, **options)
    return made


def _value(argument: Any) -> Any:
    return argument.meta["val"] if isinstance(argument, torch.fx.Node) else argument
