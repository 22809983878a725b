"""Emit `mu` kernels for pieces of a graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr, f32
from xdsl.ir import Attribute, Block, Region, SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.kernel import KernelOp, ReturnOp
from mucc.dialects.mu.ops.views import BroadcastOp, PermuteOp, inverse
from mucc.dialects.mu.types import DTYPES, Shaped, TensorType, dtype_name
from mucc.dialects.rewriting import erase_dead
from mucc.frontend.names import Names
from mucc.library.extents import names as dim_names
from mucc.torch.importer import partition
from mucc.torch.importer.composites import restore_activations
from mucc.torch.importer.lowering import Meta
from mucc.torch.importer.nodes import is_part
from mucc.torch.importer.partition import Graph, Node, Piece
from mucc.torch.importer.quantised_weights import restore_weights
from mucc.torch.importer.written_attention import restore_attention

Order = Sequence[int]
"""Axes in the order in which they lie in memory, outermost first."""

Lies = Callable[[Node], Order | None]
"""A function that returns how a value lies in memory; None where it is contiguous."""


@dataclass
class Kernel:
    """A piece as a kernel: the nodes that its parameters and results stand for, in order.

    Those in `orders` are passed with their axes in that order.
    """

    op: KernelOp
    piece: Piece
    parameters: list[Node]
    results: list[Node]
    orders: Mapping[Node, Order] = field(default_factory=dict[Node, Order])

    @property
    def name(self) -> str:
        return self.op.sym_name.data


def stored_type(meta: Meta) -> TensorType:
    """How a value lies in memory between kernels: a bool is a u8."""
    if meta.dtype == "bool":
        return TensorType.of(meta.dims, DTYPES["u8"])
    return meta.type()


def emit_piece(
    graph: Graph,
    piece: Piece,
    name: str,
    leaving: Iterable[str],
    plain: bool = False,
    lies: Lies | None = None,
) -> Kernel:
    """Emit the kernel of a piece. `leaving` has the names of nodes whose values leave the graph.

    With `plain` nothing in it is called after the graph: pieces that compute the same are the same text.
    `lies` says how parameters and results lie in memory: others than contiguous ones are read and written
    there, as tensors of permuted axes.
    """
    own = set(piece.nodes)
    leaving = frozenset(leaving)
    numbers = {n: graph.captured.number(n.name) for n in partition.sources_of(graph, piece)}
    parameters = [node for node, number in numbers.items() if number is None]
    graph = graph.within(parameters)
    results = [n for n in piece.nodes if leaves(graph, n, own, leaving)]
    names = Names("out")
    wanted = ["x" if plain else argument_name(graph, p) for p in parameters]
    orders = {n: o for n in (*parameters, *results) if lies is not None and (o := lies(n)) is not None}
    types = [_permuted(parameter_type(graph, p), orders.get(p)) for p in parameters]
    given = [(names.new(w), t) for w, t in zip(wanted, types, strict=True)]
    block = Block(arg_types=[t for _, t in given])
    values: dict[Node, Any] = {}
    for node, (hint, _), argument in zip(parameters, given, block.args, strict=True):
        argument.name_hint = hint
        back = inverse(orders[node]) if node in orders else None
        values[node] = argument if back is None else _add(block, PermuteOp(argument, back))
    for node in parameters:
        if not graph.is_number(node) and graph.meta(node).dtype == "bool":
            values[node] = _add(block, e.CmpOp("ne", values[node], _add(block, e.ConstantOp(0.0))))
    for node, number in numbers.items():
        if number is not None:
            values[node] = _add(block, e.ConstantOp(number))
    for node in piece.nodes:
        for constant in partition.made_of(graph, node):
            if constant not in values:
                _build(graph, constant, block, values, plain)
        _build(graph, node, block, values, plain)
    stored = [_stored(block, values[r], graph.meta(r)) for r in results]
    stored = [
        _add(block, PermuteOp(v, orders[r])) if r in orders else v
        for r, v in zip(results, stored, strict=True)
    ]
    block.add_op(ReturnOp(stored))
    body = Region(block)
    restore_activations(block)
    erase_dead(body)  # of operations with several values some may be unused
    restore_attention(block)
    restore_weights(block)
    called = ["out"]
    if len(results) > 1:
        called = [names.new("out" if plain else r.name) for r in results]
    outputs = [
        (n, _permuted(stored_type(graph.meta(r)), orders.get(r)))
        for n, r in zip(called, results, strict=True)
    ]
    dims = _dims([t for _, t in given])
    op = KernelOp(name, given, outputs, dims, body=body)
    erase_dead(body)
    read = [n for n, v in enumerate(block.args) if any(v.uses) or types[n].dims]
    if len(read) < len(given):
        # Numbers that nothing reads, such as those of random generators, may lie on the host.
        for argument in [v for n, v in enumerate(block.args) if n not in read]:
            block.erase_arg(argument)
        kept = [given[n] for n in read]
        op = KernelOp(name, kept, outputs, dims, body=op.detach_region(op.body))
        parameters = [parameters[n] for n in read]
    return Kernel(op, piece, parameters, results, orders)


def _permuted(type: Any, order: Order | None) -> Any:
    if order is None:
        return type
    dims = Shaped.of(type).dims
    return TensorType.of([dims[axis] for axis in order], type.element_type)


def argument_name(graph: Graph, node: Node) -> str:
    """Return the parameter's name for a value: a weight's path, else its name in the graph."""
    given = graph.captured.inputs.get(node.name)
    return node.name if given is None or given.is_argument else given.path.replace(".", "_")


def parameter_type(graph: Graph, node: Node) -> Attribute:
    """Return the type of the parameter that a value is passed as."""
    return f32 if graph.is_number(node) else stored_type(graph.meta(node))


def _dims(types: Iterable[Attribute]) -> list[str]:
    found: dict[str, None] = {}
    for type in types:
        for dim in Shaped.of(type).dims:
            found.update(dict.fromkeys(dim_names(dim)))
    return list(found)


def leaves(graph: Graph, node: Node, own: Set[Node], leaving: Set[str]) -> bool:
    """Whether a value is read outside of its piece."""
    for name in partition.names_of(graph, node):
        if name.name in leaving:
            return True
        for user in name.users:
            is_outside = user not in graph.aliases and user.op != "output" and user not in own
            if is_outside and not (is_part(user) and user.args[0] is name):
                return True
    return False


def _add(block: Block, op: Any) -> SSAValue:
    block.add_op(op)
    return op.results[0]


def _build(graph: Graph, node: Node, block: Block, values: dict[Node, Any], plain: bool) -> None:
    """Append a node; its value, or the tuple of its values, goes into `values`."""
    if node.target is operator.getitem:
        values[node] = values[node.args[0]][node.args[1]]
        return
    before = block.last_op
    built = partition.build_node(graph, node, block, values)
    first = before.next_op if before else block.first_op
    while first is not None:
        for result in first.results:
            result.name_hint = result.name_hint or (None if plain else node.name)
        first = first.next_op
    is_tuple = isinstance(node.meta.get("val"), tuple | list)
    values[node] = built if is_tuple else built[0]


def _stored(block: Block, value: SSAValue, meta: Meta) -> SSAValue:
    if meta.dtype == "bool":
        value = _add(block, e.CastOp(value, DTYPES["u8"]))
    if not isinstance(value.type, TensorType):
        value = _add(block, BroadcastOp(value, meta.dims))
    if value.type != (wanted := stored_type(meta)):  # a transposed view: results are contiguous
        value = _add(block, e.CastOp(value, DTYPES[dtype_name(wanted.element_type)]))
    return value


def module_of(kernels: Iterable[Kernel]) -> ModuleOp:
    """Put kernels into one module: equal ones once, and different ones under different names."""
    names, texts, ops = Names(), set[str](), list[KernelOp]()
    for op in (kernel.op for kernel in kernels):
        if (text := str(op)) in texts:
            continue
        texts.add(text)
        if (name := names.new(op.sym_name.data)) != op.sym_name.data:
            op = op.clone()
            op.attributes["sym_name"] = StringAttr(name)
        ops.append(op)
    return ModuleOp(ops)
