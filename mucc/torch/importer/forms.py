"""Compare operations of graphs: those of one form compute the same, and differ in which values they read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mucc.torch.importer.capture import torch

Node = Any
_map_arg: Any = torch.fx.node.map_arg


class Form(NamedTuple):
    """A text that operations share which compute the same, and the values that its numbers stand for.

    Of two such lists of operations, values with the same number correspond.
    """

    text: str
    values: tuple[Node, ...]

    def moved(self, other: Form) -> dict[Node, Node]:
        """Return what corresponds to each value in operations of the same form."""
        return dict(zip(self.values, other.values, strict=True))


def form_of(
    nodes: Iterable[Node],
    resolved: Callable[[Node], Node],
    named: Callable[[Node], str | None],
    described: Callable[[Node], object],
    noted: Callable[[Node], object],
) -> Form:
    """Return the form of operations, in their order.

    Values are those of `resolved` nodes. One that is `named` counts by that text, every other one by a number
    and what `described` says of it. `noted` says what else matters about an operation.
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
    """Return dtype, shape and strides of a tensor as text; the type of what is none."""
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{value.dtype}{list(value.shape)}{list(value.stride())}"
