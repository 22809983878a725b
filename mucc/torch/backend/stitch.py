"""Build torch graphs in which calls of kernels replace operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mucc.torch.backend.graphs import order_of
from mucc.torch.backend.launch import Launch, Result
from mucc.torch.importer.capture import torch
from mucc.torch.importer.driver import restored_dtype, stored_dtype
from mucc.torch.importer.emit import Kernel
from mucc.torch.importer.partition import (
    Graph,
    Node,
    Opaque,
    is_extent,
    is_host,
    made_of,
)

Caller = Callable[[Kernel], Callable[..., Any]]
"""A function that runs a kernel on contiguous tensors of the kernel's dtypes."""


@dataclass
class Stitched:
    """Builder of a graph from steps in order."""

    module: Any
    graph: Graph
    steps: Sequence[Kernel | Opaque]
    caller: Caller
    strict: bool = False

    def build(self) -> Any:
        """Make a function of one list of arguments, which it empties; returns the graph's results."""
        self.made = torch.fx.Graph()
        self.copies: dict[Node, Any] = {}
        for node in self.module.graph.nodes:
            if node.op in ("placeholder", "get_attr") or self._is_known(node):
                self._copy(node)
        for step in self.steps:
            if isinstance(step, Kernel):
                self._kernel(step)
            elif step.node not in self.copies:
                self._copy(step.node)
        (output,) = (n for n in self.module.graph.nodes if n.op == "output")
        self.made.output(torch.fx.node.map_arg(output.args[0], self._copied))
        self.made.eliminate_dead_code(_is_needed)
        return boxed(torch.fx.GraphModule(self.module, self.made))

    def _is_known(self, node: Node) -> bool:
        """Whether a node is an extent that follows from the arguments."""
        return is_extent(node) and is_host(node) and all(n in self.copies for n in node.all_input_nodes)

    def _copied(self, node: Node) -> Any:
        """Return the copy of a node in the stitched graph, made on first use."""
        if node not in self.copies:
            self._copy(node)
        return self.copies[node]

    def _copy(self, node: Node) -> None:
        self.copies[node] = self.made.node_copy(node, self._copied)

    def _kernel(self, kernel: Kernel) -> None:
        reference, extents = self._reference(kernel)
        launch = Launch(
            kernel.name,
            self.caller(kernel),
            [stored_dtype(self.graph.meta(p)) for p in kernel.parameters],
            [self._result(r) for r in kernel.results],
            reference,
            self.strict,
        )
        name = f"{kernel.name}_{len(self.copies)}"
        given = (*kernel.parameters, *extents)
        call = self.made.call_function(launch.function(name), tuple(map(self._copied, given)))
        if len(kernel.results) == 1:
            self.copies[kernel.results[0]] = call
        else:
            for n, result in enumerate(kernel.results):
                self.copies[result] = self.made.call_function(_item, (call, n))

    def _result(self, node: Node) -> Result:
        return Result(restored_dtype(self.graph.meta(node)), order_of(node.meta["val"]))

    def _reference(self, kernel: Kernel) -> tuple[Any, list[Node]]:
        """Build the PyTorch function equivalent to a kernel; returns it with the extents it needs."""
        nodes: dict[Node, None] = {}
        for node in kernel.piece.nodes:
            nodes.update(dict.fromkeys([*made_of(self.graph, node), node]))
        extents = dict.fromkeys(n for node in nodes for n in node.all_input_nodes if is_extent(n))
        reference = torch.fx.Graph()
        copies: dict[Node, Any] = {}
        for node in (*kernel.parameters, *extents):
            copies[node] = reference.placeholder(node.name)

        def copied(node: Node) -> Any:
            if node not in copies:
                copies[node] = reference.node_copy(node, copied)
            return copies[node]

        for node in nodes:
            copies[node] = reference.node_copy(node, copied)
        results = [copies[r] for r in kernel.results]
        reference.output(results[0] if len(results) == 1 else tuple(results))
        return torch.fx.GraphModule(self.module, reference).forward, list(extents)


def _is_needed(node: Node) -> bool:
    """Whether a node without uses stays in the graph: all except computed extents."""
    return node.op != "call_function" or not is_extent(node)


def _item(values: Sequence[Any], place: int) -> Any:
    return values[place]


def boxed(module: Any) -> Any:
    """Convert a graph module to a function of one list that frees arguments after their last use."""
    if (codegen := getattr(torch.fx.graph, "_BoxedCodeGen", None)) is not None:
        module.graph.set_codegen(codegen())
        module.recompile()
        function = module.forward
    else:

        def function(arguments: list[Any]) -> Any:
            return module.forward(*arguments)

    def call(arguments: list[Any]) -> Any:
        return function(arguments)

    call._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
    return call


def with_linear(module: Any) -> Any:
    """Restore `linear` in a graph where AOTAutograd has decomposed it.

    `view(addmm(b, view(x, [-1, K]), permute(w)), [..., N])` is `linear(x, w, b)`, which can be one kernel
    with what is done to its result; a view between would part them.
    """
    aten = torch.ops.aten
    changed = False
    for node in list(module.graph.nodes):
        if node.target is not aten.view.default or node.args[0].target not in (
            aten.addmm.default,
            aten.mm.default,
        ):
            continue
        product = node.args[0]
        *bias, rows, weight = product.args
        if (
            len(product.users) != 1
            or product.kwargs
            or rows.target is not aten.view.default
            or weight.target not in (aten.permute.default, aten.t.default)
            or (weight.target is aten.permute.default and list(weight.args[1]) != [1, 0])
            or not _flattens(rows, node)
            or (bias and bias[0].meta["val"].dim() != 1)
        ):
            continue
        with module.graph.inserting_before(node):
            linear = module.graph.call_function(aten.linear.default, (rows.args[0], weight.args[0], *bias))
        linear.meta.update(node.meta)
        node.replace_all_uses_with(linear)
        changed = True
    if changed:
        module.graph.eliminate_dead_code()
        module.recompile()
    return module


def _flattens(rows: Node, result: Node) -> bool:
    """Whether a reshape merges all axes but the last, and a later one restores them."""
    whole, out = rows.args[0].meta["val"].shape, result.meta["val"].shape
    inner = rows.meta["val"].shape
    return (
        len(whole) == len(out) > 2
        and len(inner) == 2
        and str(inner[1]) == str(whole[-1])
        and list(map(str, whole[:-1])) == list(map(str, out[:-1]))
    )
