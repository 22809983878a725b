"""Replace regions of a graph of Inductor by calls of the operator that runs kernels."""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from mucc.dialects.mu.ops.views import inverse
from mucc.torch.backend.fusible import values_of
from mucc.torch.backend.graphs import fills_memory, order_of
from mucc.torch.backend.lowering import lower_kernels
from mucc.torch.backend.operator import RUN_KERNEL, Request, signature_of
from mucc.torch.importer.capture import torch
from mucc.torch.importer.driver import restored_dtype, stored_dtype
from mucc.torch.importer.emit import Kernel, Order
from mucc.torch.importer.lowering import Meta
from mucc.torch.importer.nodes import is_part, keeps_place
from mucc.torch.importer.partition import Graph, Node, names_of
from mucc.torch.importer.work import ALIASES

_aten = torch.ops.aten
_convert = torch.ops.prims.convert_element_type.default


@dataclass(frozen=True)
class Region:
    """A kernel in a graph of Inductor: the operations that it replaces, what it reads, and what it makes.

    `kernel` is about a copy of the graph, in which linear layers are whole; the rest are nodes of the graph.
    """

    kernel: Kernel
    nodes: tuple[Node, ...]
    parameters: tuple[Node, ...]
    results: tuple[Node, ...]

    @staticmethod
    def of(kernel: Kernel, copy: Copy, graph: Graph) -> Region:
        """Find the region of a kernel; `graph` is about the copy."""
        inside = [name for node in kernel.piece.nodes for name in names_of(graph, node)]
        kept = copy.repeated - set(inside)
        shared = {part for node in kept for part in copy.parts[node]}
        own = {part: None for node in inside for part in copy.parts[node] if part not in shared}
        parameters = tuple(copy.parts[p][-1] for p in kernel.parameters)
        return Region(
            kernel,
            tuple(n for n in own if n not in parameters),  # another operation may read a linear layer's view
            parameters,
            tuple(copy.parts[r][-1] for r in kernel.results),
        )

    def is_movable(self, graph: Any) -> bool:
        """Whether the kernel can stand in the place of its operations, as the graph is now.

        It cannot where something between them changes memory, or where what has to stay behind it is to keep
        its place among operations that do not.
        """
        own = set(self.nodes)
        between = self._between(graph)
        later = set(_behind(between, own))
        if any(source in later for n in own for source in n.all_input_nodes):
            return False
        kept = [n for n in between if n.op == "call_function" and n not in own and keeps_place(n)]
        if any(_changes_memory(n) for n in kept):
            return False
        moved = [n in later for n in kept]
        return moved == sorted(moved)

    def replace(
        self, graph: Any, meta: Graph, request: Request, keeps_order: bool, made: dict[Node, Node]
    ) -> None:
        """Replace the operations by a call of the kernel.

        `made` has the values that stand for those of regions before, and gets those of this one.

        Arguments are converted and laid out by operations of the graph, which Inductor fuses with what makes
        them. With `keeps_order`, results lie in memory as those that they replace; else they are contiguous.
        """
        between = self._between(graph)
        later = set(_behind(between, set(self.nodes)))
        place = _Place(graph, between[-1])
        orders = [self.kernel.orders.get(p) for p in self.kernel.parameters]
        given = zip(self.parameters, orders, strict=True)
        arguments = [_argument(place, made.get(p, p), order) for p, order in given]
        values = signature_of(request.program).empty([a.meta["val"] for a in arguments])
        lower_kernels()
        call = place.add(RUN_KERNEL, (arguments, request.text), values)
        call.meta["eager_input_vals"] = (([a.meta["val"] for a in arguments], request.text), {})
        for n, (result, copied) in enumerate(zip(self.results, self.kernel.results, strict=True)):
            value = place.add(operator.getitem, (call, n), values[n])
            if copied in self.kernel.orders:
                value = _permuted(place, value, inverse(self.kernel.orders[copied]))
            if (dtype := restored_dtype(meta.meta(copied))) is not None:
                value = place.add(_convert, (value, dtype), value.meta["val"].to(dtype))
            # Operations such as attention lay out results as their operands, and views of those may be read.
            wanted = order_of(result.meta["val"], fills=False)
            if keeps_order and wanted is not None and wanted != order_of(value.meta["val"]):
                value = _ordered(place, value, wanted)
            for name in ("stack_trace", "nn_module_stack", "source_fn_stack", "original_aten"):
                if name in result.meta:
                    call.meta.setdefault(name, result.meta[name])
            result.replace_all_uses_with(value)
            made[result] = value
        order = {node: n for n, node in enumerate(between)}
        for node in sorted((n for n in self.nodes if n in order), key=order.__getitem__, reverse=True):
            if node.users:
                later.add(node)  # a view of what the kernel makes, or reads
            else:
                graph.erase_node(node)
        for node in sorted(later, key=order.__getitem__):
            place.move(node)

    def _between(self, graph: Any) -> list[Node]:
        """Return the part of a graph from the first operation of the region to the last."""
        nodes, own = list(graph.nodes), set(self.nodes)
        places = [n for n, node in enumerate(nodes) if node in own]
        return nodes[places[0] : places[-1] + 1]


@dataclass
class _Place:
    """A place in a graph, behind which nodes are added in order."""

    graph: Any
    last: Node

    def add(self, target: Any, args: tuple[Any, ...], value: Any, **options: Any) -> Node:
        with self.graph.inserting_after(self.last):
            node = self.graph.call_function(target, args, options)
        node.meta["val"] = value
        self.last = node
        return node

    def move(self, node: Node) -> None:
        self.last.append(node)
        self.last = node


def _argument(place: _Place, node: Node, order: Order | None) -> Node:
    """Return a value in the dtype and the layout that a kernel reads: contiguous, with axes in an order."""
    value = node.meta["val"]
    dtype = stored_dtype(Meta((), str(value.dtype).removeprefix("torch.")))
    if dtype is not None:
        node = place.add(_convert, (node, dtype), value.to(dtype))
    if order is not None:
        node = _permuted(place, node, order)
    if node.meta["val"].is_contiguous():
        return node
    options = {"memory_format": torch.contiguous_format}
    return place.add(_aten.clone.default, (node,), _contiguous(node.meta["val"]), **options)


def _contiguous(value: Any) -> Any:
    return value.clone(memory_format=torch.contiguous_format)


def _permuted(place: _Place, node: Node, order: Order) -> Node:
    return place.add(_aten.permute.default, (node, list(order)), node.meta["val"].permute(*order))


def _ordered(place: _Place, node: Node, order: Order) -> Node:
    """Lay out a value with its axes in another order, outermost first."""
    turned = _permuted(place, node, order)
    options = {"memory_format": torch.contiguous_format}
    laid = place.add(_aten.clone.default, (turned,), _contiguous(turned.meta["val"]), **options)
    return _permuted(place, laid, inverse(order))


def _behind(between: Sequence[Node], own: Collection[Node]) -> list[Node]:
    """Return the nodes that read what a region makes before its last operation, in order."""
    own = set(own)
    found: dict[Node, None] = {}
    for node in between:
        if node not in own and any(s in own or s in found for s in node.all_input_nodes):
            found[node] = None
    return list(found)


def _changes_memory(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is None or schema.is_mutable


# The copy of a graph that is looked at


@dataclass
class Copy:
    """A copy of a graph to look at, with linear layers put together again.

    `parts` has the nodes of the graph that each node of the copy stands for; the last has its value.
    `repeated` are views of which the copy has several: one for each reader.
    """

    graph: Any
    parts: dict[Node, list[Node]]
    repeated: set[Node] = field(default_factory=set[Node])

    @staticmethod
    def of(graph: Any) -> Copy:
        copied = torch.fx.Graph()
        copies: dict[Node, Node] = {}
        for node in graph.nodes:
            copies[node] = copied.node_copy(node, copies.__getitem__)
            copies[node].name = node.name
        copy = Copy(copied, {c: [node] for node, c in copies.items()})
        copied.eliminate_dead_code()
        copy._join_linear()
        copy._repeat_views()
        return copy

    def _repeat_views(self) -> None:
        """Give each reader of a view that does not fill its memory a view of its own.

        A kernel with the view reads the tensor behind it in place. It would get a copy of the view's elements
        where the view had to stay outside, since others read it too.
        """
        for node in reversed(list(self.graph.nodes)):
            if not _is_cut(node):
                continue
            _, *others = sorted(node.users, key=lambda user: user.op != "output")
            for reader in others:
                with self.graph.inserting_before(node):
                    again = self.graph.node_copy(node)
                again.name = f"{node.name}_for_{reader.name}"
                self.parts[again] = self.parts[node]
                reader.replace_input_with(node, again)
                self.repeated |= {node, again}

    def _join_linear(self) -> None:
        """Restore `linear` where AOTAutograd has decomposed it.

        `view(addmm(b, view(x, [-1, K]), permute(w)), [..., N])` is `linear(x, w, b)`, which can be one kernel
        with what is done to its result; a view between would part them. With a matrix `w` that is not
        permuted it is `linear(x, permute(w), b)`, whose permutation is no operation of the graph.
        """
        for node in list(self.graph.nodes):
            if node.target not in _RESHAPES:
                continue
            product: Node = node.args[0]
            if product.target not in (_aten.addmm.default, _aten.mm.default):
                continue
            *bias, rows, weight = product.args
            if (
                len(product.users) != 1
                or product.kwargs
                or rows.target not in _RESHAPES
                or not _flattens(rows, node)
                or (bias and bias[0].meta["val"].dim() != 1)
            ):
                continue
            is_turned = _is_turned(weight)
            with self.graph.inserting_before(node):
                turned = weight.args[0] if is_turned else self._turned(weight)
                linear = self.graph.call_function(_aten.linear.default, (rows.args[0], turned, *bias))
            linear.meta.update(node.meta)
            self.parts[linear] = [
                *(self.parts[rows] + (self.parts[weight] if is_turned else [])),
                *(self.parts[product] + self.parts[node]),
            ]
            node.replace_all_uses_with(linear)
            for unused in (node, product, rows, *([weight] if is_turned else [])):
                if not unused.users:
                    self.graph.erase_node(unused)

    def _turned(self, weight: Node) -> Node:
        turned = self.graph.call_function(_aten.permute.default, (weight, [1, 0]))
        turned.meta["val"] = weight.meta["val"].permute(1, 0)
        self.parts[turned] = []
        return turned


def _is_cut(node: Node) -> bool:
    """Whether a node is a view that does not fill its memory, or of which not all parts do."""
    made = node.args[0] if is_part(node) else node
    is_view = getattr(made.target, "overloadpacket", None) in ALIASES
    return is_view and len(node.users) > 1 and not all(map(fills_memory, values_of(node)))


def _is_turned(weight: Node) -> bool:
    """Whether a matrix is another one with its axes exchanged."""
    if weight.target is _aten.permute.default:
        return list(weight.args[1]) == [1, 0]
    return weight.target is _aten.t.default


_RESHAPES = (_aten.view.default, _aten.reshape.default)


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
