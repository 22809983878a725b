"""Compute values of a graph that follow from no argument of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mucc.torch.importer.capture import torch

Node = Any
_modes: Any = torch.utils._python_dispatch

LARGEST = 1 << 27
"""The most elements of a tensor that is computed to learn its values."""


class KnownValues:
    """Values of a graph that no argument goes into, computed where they are asked for.

    `constant` returns the tensor that a node of no operation is known to be, or None.
    """

    def __init__(self, graph: Any, constant: Callable[[Node], Any] = lambda node: None):
        self.graph, self.given = graph, dict[Node, Any]()
        self.constant: dict[Node, bool] = {}
        for node in graph.nodes:
            if node.op != "call_function" and (value := constant(node)) is not None:
                self.given[node] = value
            is_computed = _is_pure(node) and all(self.constant[n] for n in node.all_input_nodes)
            self.constant[node] = node in self.given or is_computed

    def told(self, node: Node, of: Callable[[Any], Any]) -> Any:
        """Return what a function makes of a known value; None of other values."""
        if not self.constant.get(node):
            return None
        with _modes._disable_current_modes(), torch.no_grad():
            return of(self._value(node))

    def _value(self, node: Node) -> Any:
        """Compute a node, and what it reads, in the order of the graph."""
        needed, waiting = {node}, [node]
        while waiting:
            new = [n for n in waiting.pop().all_input_nodes if n not in needed]
            needed.update(new)
            waiting += new
        values: dict[Node, Any] = {}
        for n in self.graph.nodes:
            if n in needed:
                args, options = torch.fx.node.map_arg((n.args, n.kwargs), values.__getitem__)
                values[n] = self.given[n] if n in self.given else n.target(*args, **options)
        return values[node]


def _is_pure(node: Node) -> bool:
    """Whether a node is an operation that makes tensors of known sizes of nothing but its arguments."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not all(isinstance(d, int) for d in value.shape):
        return False
    random = torch.Tag.nondeterministic_seeded in node.target.tags
    stored = sum(d > 0 for d in value.shape) == value.dim() and _elements(value) <= LARGEST
    return stored and not random and not node.target._schema.is_mutable


def _elements(value: Any) -> int:
    """Return the elements of a tensor that lie in memory, without those of broadcast axes."""
    count = 1
    for extent, stride in zip(value.shape, value.stride(), strict=True):
        count *= extent if stride else 1
    return count
