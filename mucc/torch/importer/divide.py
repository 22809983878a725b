"""Divide pieces that are no kernel into pieces that are: with few arguments, and with little between them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from mucc.library.signature import MOST_ARGS
from mucc.torch.importer.counting import bytes_of
from mucc.torch.importer.emit import leaves
from mucc.torch.importer.nodes import is_part
from mucc.torch.importer.partition import Graph, Judge, Node, Piece, returned, sources_of
from mucc.torch.importer.work import work_of


def divider(graph: Graph, judge: Judge) -> Callable[[Piece], list[Piece]]:
    """Return a function that divides a piece, whose operations pass alone, into pieces that pass."""
    leaving = frozenset(returned(graph.captured))

    def passes(piece: Piece, units: list[list[Node]]) -> bool:
        if len(units) == 1:
            return True
        own = set(piece.nodes)
        results = sum(leaves(graph, n, own, leaving) for n in piece.nodes)
        numbers = sum(graph.captured.number(s.name) is None for s in sources_of(graph, piece))
        return numbers + results <= MOST_ARGS and judge(piece) is None

    def divide(piece: Piece) -> list[Piece]:
        found: list[Piece] = []
        waiting = [_units(piece)]
        while waiting:
            units = waiting.pop()
            part = Piece([node for unit in units for node in unit])
            if passes(part, units):
                found.append(part)
                continue
            place = _place(graph, units)
            waiting += [units[place:], units[:place]]
        return found

    return divide


def _units(piece: Piece) -> list[list[Node]]:
    """Return operations in order, each with those that only take one of its values."""
    units: dict[Node, list[Node]] = {}
    for node in piece.nodes:
        units.setdefault(node.args[0] if is_part(node) else node, []).append(node)
    return list(units.values())


def _place(graph: Graph, units: list[list[Node]]) -> int:
    """Return where to divide operations: in their middle half, where the fewest bytes pass.

    Of equal places it is that before the most work, since what follows a product may join it.
    """
    owner = {node: n for n, unit in enumerate(units) for node in unit}
    change = [0] * (len(units) + 1)
    last: dict[Node, int] = {}
    for node, n in owner.items():
        for source in map(graph.resolved, node.all_input_nodes):
            if source in owner:
                last[source] = max(n, last.get(source, n))
    for node, n in last.items():
        bytes = bytes_of(node.meta.get("val"))
        change[owner[node] + 1] += bytes
        change[n + 1] -= bytes
    passing = list(accumulate(change))
    quarter = len(units) // 4
    places = range(max(quarter, 1), max(len(units) - quarter, 2))
    return min(places, key=lambda n: (passing[n], -work_of(units[n][0]).operations))
