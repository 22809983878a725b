"""Examples of values in graphs of dynamo: fake tensors that nodes carry as `example_value`."""

from __future__ import annotations

from typing import Any

from mucc.torch.importer.capture import torch

EXAMPLE = "example_value"
"""Where dynamo keeps the fake tensor of a node."""


def strided_example(node: Any) -> Any:
    """Return the fake tensor of a node of dynamo; None where it is no strided tensor, or not a node's."""
    value: Any = node.meta.get(EXAMPLE) if isinstance(node, torch.fx.Node) else None
    return value if isinstance(value, torch.Tensor) and not value.is_nested else None


def method_call(node: Any, name: str, *arguments: Any) -> Any:
    """Append a call of a tensor's method to a graph of dynamo, with the fake tensor that it gives."""
    made = node.graph.call_method(name, (node, *arguments))
    if (value := node.meta.get(EXAMPLE)) is not None:
        given = (a.meta[EXAMPLE] if isinstance(a, torch.fx.Node) else a for a in arguments)
        made.meta[EXAMPLE] = getattr(value, name)(*given)
    return made
