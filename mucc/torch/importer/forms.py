"""Describe operations of graphs by texts without names; equal texts mean equal work on other values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mucc.torch.importer.capture import torch

Node = Any
_map_arg: Any = torch.fx.node.map_arg


class Form(NamedTuple):
    """The text of a list of operations, and the values by the numbers that it has for them.

    Lists of equal text compute the same; values with the same number correspond.
    """

    text: str
    values: tuple[Node, ...]

    def moved(self, other: Form) -> dict[Node, Node]:
        """Map each value to the corresponding one in operations of the same form."""
        return dict(zip(self.values, other.values, strict=True))


def form_of(
    nodes: Iterable[Node],
    resolved: Callable[[Node], Node],
    named: Callable[[Node], str | None],
    described: Callable[[Node], object],
    noted: Callable[[Node], object],
) -> Form:
    """Return the form of operations, in their order.

    `resolved` maps a node to the one whose value it has. A value is written as the text of `named`, or else
    as a number, with its description by `described`. `noted` adds further facts about an operation.
    """
    numbers: dict[Node, int] = {}
    descriptions: list[object] = []

    def number(node: Node) -> Node | str:
        node = resolved(node)
        if (name := named(node)) is not None:
            return name
        if node not in numbers:
            numbers[node] = len(numbers)
            descriptions.append(described(node))
        return f"%{numbers[node]}"

    rows: list[object] = []
    for node in nodes:
        args, options = _map_arg((node.args, node.kwargs), number)
        rows.append((str(node.target), args, options, number(node), noted(node)))
    return Form(repr((rows, descriptions)), tuple(numbers))


def lies_as(value: Any) -> str:
    """Return dtype, shape and strides of a tensor as text; the type of any other value."""
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{value.dtype}{list(value.shape)}{list(value.stride())}"
