"""Views that cost nothing where PyTorch makes them: which of them are left to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mucc.library.extents import names_of as names_of_dims
from mucc.library.extents import sources
from mucc.torch.importer.lowering import aten
from mucc.torch.importer.nodes import Node, tensor_inputs
from mucc.torch.importer.work import VIEWS

if TYPE_CHECKING:
    from mucc.torch.importer.partition import Graph

VIEW = "a view"
"""Why a view is left to PyTorch."""


def is_free(graph: Graph, node: Node, reasons: Mapping[Node, str]) -> bool:
    """Whether a node is a view of something that no kernel makes."""
    packet = getattr(node.target, "overloadpacket", None)
    shapes = [m.dims for m in graph.metas(node) if m is not None]
    names = names_of_dims(d for dims in shapes for d in dims)
    if len(sources(shapes, names)) < len(names):
        return False  # what reads the view could not tell the extents of the module from a product of them
    return packet in VIEWS and all(
        (source := graph.resolved(s)).op == "placeholder" or source in reasons for s in tensor_inputs(node)
    )


def free_ends(graph: Graph, reasons: dict[Node, str]) -> None:
    """Leave views of kernels' values that no kernel reads to PyTorch."""
    for node in reversed(graph.nodes):
        packet = getattr(node.target, "overloadpacket", None)
        is_view = packet in graph.free_ends and node not in reasons and node not in graph.constants
        if is_view and all(u.op == "output" or u in reasons for u in node.users):
            reasons[node] = VIEW


def expand_in_kernels(graph: Graph, reasons: dict[Node, str], compiles: Callable[[Node], bool]) -> None:
    """Expand in kernels what they alone read: they read contiguous tensors, and would be given a copy."""
    for node in graph.nodes:
        if reasons.get(node) != VIEW or not _repeats(graph, node):
            continue
        views, readers, pending = {node}, set[Node](), [node]
        while pending:
            for user in pending.pop().users:
                is_view = reasons.get(user) == VIEW
                (views if is_view else readers).add(user)
                if is_view or user in graph.aliases:
                    pending.append(user)
        readers -= graph.aliases.keys()
        in_kernels = readers and all(r.op != "output" and r not in reasons for r in readers)
        if in_kernels and all(map(compiles, views)):
            for view in views:
                del reasons[view]


def _repeats(graph: Graph, node: Node) -> bool:
    """Whether a node is a view that has elements more than once."""
    if getattr(node.target, "overloadpacket", None) is not aten.expand:
        return False
    shapes = [m.dims for m in graph.metas(node) if m is not None]
    return shapes != [graph.meta(s).dims for s in tensor_inputs(node)]
