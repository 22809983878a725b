"""Emit the kernels of regions of a graph of Inductor, once for all equal regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mucc.frontend.names import Names
from mucc.torch.backend.fusible import values_of
from mucc.torch.backend.graphs import lies_in
from mucc.torch.importer.emit import Kernel, emit_piece, leaves
from mucc.torch.importer.forms import Form, form_of, lies_as
from mucc.torch.importer.nodes import is_host, is_part
from mucc.torch.importer.partition import Graph, Node, Piece, returned

LONGEST_NAME = 40
"""The most characters of a kernel's name, which is made of names of its operations."""


class Emitter:
    """Emits kernels of pieces of a graph; equal pieces are emitted once and cloned.

    `before` is called before each kernel.
    """

    def __init__(self, graph: Graph, before: Callable[[], object] = lambda: None):
        self.graph, self.before = graph, before
        self.leaving = frozenset(returned(graph.captured))
        self.lies = lies_in(graph)
        self.known: dict[str, tuple[Form, Kernel]] = {}

    def __call__(self, piece: Piece) -> Kernel:
        """Emit the kernel of a piece. Raises Unsupported."""
        self.before()
        form = self.form(piece.nodes)
        if form.text not in self.known:
            made = emit_piece(self.graph, piece, name_of(piece), self.leaving, plain=True, lies=self.lies)
            self.known[form.text] = form, made
            return made
        first, kernel = self.known[form.text]
        place = first.moved(form)
        return replace(
            kernel,
            op=kernel.op.clone(),
            piece=piece,
            parameters=[place[n] for n in kernel.parameters],
            results=[place[n] for n in kernel.results],
            orders={place[n]: order for n, order in kernel.orders.items()},
        )

    def form(self, nodes: Sequence[Node]) -> Form:
        """Return the form of a region: regions of equal form have kernels of the same text."""
        own = set(nodes)

        def named(node: Node) -> str | None:
            return node.name if node in self.graph.constants or is_host(node) else None

        def described(node: Node) -> object:
            number = self.graph.captured.number(node.name)  # which is part of the kernel
            return self.lies(node), number, [lies_as(v) for v in values_of(node)]

        def is_result(node: Node) -> bool:
            return leaves(self.graph, node, own, self.leaving)

        return form_of(nodes, self.graph.resolved, named, described, is_result)


def name_of(piece: Piece) -> str:
    """Name the kernel of a piece by its first operations."""
    names = [
        node.target._schema.name.partition("::")[2].strip("_") for node in piece.nodes if not is_part(node)
    ]
    name = "_".join(dict.fromkeys(names))
    short = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME].rstrip('_')}_and_more"
    return Names().new(short)
