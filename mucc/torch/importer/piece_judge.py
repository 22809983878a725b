"""Judge pieces of a graph by the compiler: pieces of equal form are emitted and compiled once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mucc.frontend.source import SourceError, kernel_text
from mucc.torch.importer.emit import emit_piece, leaves
from mucc.torch.importer.forms import form_of
from mucc.torch.importer.lowering import Unsupported
from mucc.torch.importer.partition import Graph, Node, Piece, extent_text, made_of

TextJudge = Callable[[str], str | None]
"""Says of a kernel's text why it cannot be compiled, or None."""


class PieceJudge:
    """Judge of pieces of a graph. `leaving` has the names of nodes whose values leave it."""

    def __init__(self, graph: Graph, judge: TextJudge, leaving: Sequence[str]):
        self.graph, self.judge, self.leaving = graph, judge, frozenset(leaving)
        self.known: dict[str, str | None] = {}

    def __call__(self, piece: Piece) -> str | None:
        """Return the reason why a piece cannot be a kernel, or None."""
        form = self._form(piece)
        if form not in self.known:
            self.known[form] = self._judged(piece)
        return self.known[form]

    def _form(self, piece: Piece) -> str:
        """Return a text that is equal for pieces whose kernels have equal texts."""
        graph, own = self.graph, set(piece.nodes)
        nodes = dict.fromkeys(m for n in piece.nodes for m in (*made_of(graph, n), n))

        def described(node: Node) -> object:
            return graph.described(node), graph.captured.number(node.name)

        def is_result(node: Node) -> bool:
            return node in own and leaves(graph, node, own, self.leaving)

        return form_of(nodes, graph.resolved, extent_text, described, is_result).text

    def _judged(self, piece: Piece) -> str | None:
        try:
            return self.judge(
                kernel_text(emit_piece(self.graph, piece, "trial", self.leaving, plain=True).op)
            )
        except (SourceError, Unsupported) as error:
            return str(error)
