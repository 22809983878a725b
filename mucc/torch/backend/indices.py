"""The pass that makes slices of indexing at known places, such as `x[:, [-2]]`, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mucc.torch.backend.graphs import attribute
from mucc.torch.backend.joined import GraphPass
from mucc.torch.importer.known_indices import slice_known_indices
from mucc.torch.importer.known_values import KnownValues


class IndicesPass(GraphPass):
    """A pass over joint graphs, before AOTAutograd parts them; `failed` is called with what goes wrong."""

    def __init__(self, failed: Callable[[Exception], None]):
        self.failed = failed

    def key(self) -> str:
        return "indices"

    def run(self, graph: Any) -> None:
        try:
            slice_known_indices(graph, KnownValues(graph, _constant))
        except Exception as error:
            self.failed(error)


def _constant(node: Any) -> Any:
    """Return the tensor of an attribute of a graph's module; None of other nodes."""
    return attribute(node.graph.owning_module, node.target) if node.op == "get_attr" else None
