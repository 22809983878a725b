"""Partition a graph into kernels and PyTorch calls, in order of execution."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, cast

from xdsl.dialects.builtin import f32
from xdsl.ir import Block, SSAValue

from mucc.dialects.mu.ops.pointwise import ExtentOp
from mucc.dialects.mu.types import Shaped
from mucc.dialects.walk import postorder
from mucc.library.extents import Dim, sources
from mucc.library.extents import names as dim_names
from mucc.library.extents import names_of as names_of_dims
from mucc.torch.importer.capture import Captured, Ref, Source, torch
from mucc.torch.importer.fold_norms import is_prepared
from mucc.torch.importer.forms import Form, form_of
from mucc.torch.importer.free_views import VIEW, expand_in_kernels, free_ends, is_free
from mucc.torch.importer.lowering import Builder, Meta, Open, Unsupported, build
from mucc.torch.importer.nodes import is_extent, is_host, is_part, keeps_place, tensor_inputs
from mucc.torch.importer.packed_weights import PACKED
from mucc.torch.importer.work import VIEWS

Node = Any
Judge = Callable[["Piece"], str | None]
"""A function that returns the reason why a piece cannot be a kernel, or None."""

Divide = Callable[["Piece"], "list[Piece]"]
"""A function that returns the pieces, in order, that a piece is divided into."""


@dataclass(frozen=True)
class Formats:
    """What products and convolutions of f32 are computed in, and what values of 16-bit floats are rounded.

    `round` is "fused", where only what is stored and what the module converts is rounded, or "eager", where
    the result of each operation is, as PyTorch has it.
    """

    matmul: str = "f32"
    conv: str = "tf32"
    round: str = "fused"


@dataclass
class Piece:
    """A piece of a graph: nodes that become one kernel, in order."""

    nodes: list[Node]
    name: str = ""


@dataclass
class Opaque:
    """A node that PyTorch runs, with the reason."""

    node: Node
    reason: str


Step = Piece | Opaque

EXTENT = "an extent"
"""The reason of nodes that compute or check extents: they are no operations on tensors."""


@dataclass
class Graph:
    """A captured graph with properties of its nodes."""

    captured: Captured
    formats: Formats
    nodes: list[Node] = field(default_factory=list[Node])
    aliases: dict[Node, Node] = field(default_factory=dict[Node, Node])
    constants: set[Node] = field(default_factory=set[Node])
    """Nodes that need no input: every piece that uses one makes it itself."""
    prepared: list[Node] = field(default_factory=list[Node])
    """Nodes that follow from the module's state alone, in order: the driver computes them before all else."""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """What open extents are called, by torch's expression."""
    derived: Mapping[str, Dim] = field(default_factory=dict[str, Dim])
    """Arithmetic on named extents in place of names, by torch's expression."""
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Numbers for open extents that count as fixed."""
    excluded: Callable[[Node], str | None] = lambda node: None
    """Why a node stays with PyTorch whatever it computes, or None."""
    free_ends: Set[Any] = VIEWS
    """Views that are left to torch where they only lead out of kernels."""
    before: dict[Node, Node] = field(default_factory=dict[Node, Node])
    """Of each node that has to keep its place among such, the one before it."""

    def resolved(self, node: Node) -> Node:
        """Return the node whose value this one is."""
        while node in self.aliases:
            node = self.aliases[node]
        return node

    def metas(self, node: Node) -> list[Meta | None]:
        """Return the metadata of a node's values; None for a value that is no tensor."""
        value = node.meta.get("val")
        found = [
            self._meta(v) for v in (cast("list[Any]", value) if isinstance(value, tuple | list) else [value])
        ]
        packed = node.meta.get(PACKED)
        return found if packed is None else [replace(m, dtype=packed) for m in found if m is not None]

    def meta(self, node: Node) -> Meta:
        """Return the one value of a node. Raises Unsupported if it is not a tensor."""
        found = None if isinstance(node.meta.get("val"), tuple | list) else self.metas(node)[0]
        if found is None:
            raise Unsupported("a value that is no tensor")
        return found

    def _meta(self, value: Any) -> Meta | None:
        if not isinstance(value, torch.Tensor):
            return None
        dims = tuple(d if isinstance(d, int) else self._dim(d) for d in value.shape)
        return Meta(dims, str(value.dtype).removeprefix("torch."))

    def _dim(self, symbol: Any) -> int | str:
        text = str(symbol)
        if text.isdigit():
            return int(text)
        if text in self.sizes:
            return self.sizes[text]
        if text in self.derived:
            return self.derived[text]
        if text not in self.names:
            raise Unsupported(f"the extent {text}, which is known only as it runs")
        return self.names[text]

    def within(self, parameters: Iterable[Node]) -> Graph:
        """Return the graph with names for derived extents of dims that a kernel could not bind."""
        shapes = [m.dims for p in parameters if not self.is_number(p) for m in self.metas(p) if m is not None]
        bound = set(sources(shapes, sorted(names_of_dims(d for dims in shapes for d in dims))))
        derived = {text: dim for text, dim in self.derived.items() if set(dim_names(dim)) <= bound}
        return self if len(derived) == len(self.derived) else replace(self, derived=derived)

    def argument(self, symbol: Any) -> int | str:
        """Return an extent among the arguments of a node: a number, or an `Open` one."""
        dim = self._dim(symbol)
        return dim if isinstance(dim, int) else Open(dim)

    def reads(self, node: Node, opaque: bool) -> list[Node]:
        """Return the nodes that must run before a node: kernels take tensors, and PyTorch extents too."""
        found = [self.resolved(n) for n in (node.all_input_nodes if opaque else tensor_inputs(node))]
        return [*found, self.before[node]] if opaque and node in self.before else found

    def described(self, node: Node) -> object:
        """Return what operations depend on of a value: dtypes and extents, and whether it is a number."""
        value = node.meta.get("val")
        values = cast("list[Any]", value) if isinstance(value, tuple | list) else [value]
        tensors = [(v.dtype, list(v.shape)) if isinstance(v, torch.Tensor) else None for v in values]
        return isinstance(value, tuple | list), tensors, self.is_number(node), node.meta.get(PACKED)

    def is_number(self, node: Node) -> bool:
        """Whether a node is a number among the arguments."""
        given = self.captured.inputs.get(node.name)
        return given is not None and given.source is Source.NUMBER


def build_node(
    graph: Graph, node: Node, block: Block, values: Mapping[Node, Any]
) -> tuple[SSAValue | None, ...]:
    """Append the operations of a node to a block. Raises Unsupported."""
    formats = graph.formats
    is_eager = formats.round == "eager"
    builder = Builder(block, graph.metas(node), formats.matmul, formats.conv, is_eager)

    def value(argument: Any) -> Any:
        match argument:
            case torch.fx.Node() if is_extent(argument):
                return graph.argument(argument.meta["val"])
            case torch.fx.Node():
                if (found := values.get(graph.resolved(argument))) is None:
                    raise Unsupported(f"the value {argument.name}")
                return found
            case list() | tuple():
                return [value(a) for a in cast("list[Any]", argument)]
            case torch.SymInt():
                return graph.argument(argument)
            case _:
                return argument

    return build(
        builder, node.target, [value(a) for a in node.args], {k: value(v) for k, v in node.kwargs.items()}
    )


def attempt(graph: Graph, node: Node) -> str | Node | None:
    """Why a node cannot be built; the node that it equals; or None where it becomes operations."""
    if (reason := graph.excluded(node)) is not None:
        return reason
    block = Block()
    values: dict[Node, SSAValue] = {}
    origin: dict[SSAValue, Node] = {}
    try:
        graph = graph.within(map(graph.resolved, tensor_inputs(node)))
        for source in tensor_inputs(node):
            source = graph.resolved(source)
            type = f32 if graph.is_number(source) else graph.meta(source).type()
            values[source] = block.insert_arg(type, len(block.args))
            origin[values[source]] = source
        built = build_node(graph, node, block, values)
        _check_open(graph, node, block)
    except Unsupported as error:
        return str(error)
    is_tuple = isinstance(node.meta.get("val"), tuple | list)  # even of one: its parts are nodes
    if not is_tuple and built[0] is not None and built[0] in origin:
        return origin[built[0]]
    if all(v is None for v in built):
        return "no operation of mu for it"
    if any(graph.metas(node)[n] is not None and v is None and _is_used(node, n) for n, v in enumerate(built)):
        return "a value of it that mu has no operation for"
    return None


class _Attempts:
    """Attempts to build the nodes of a graph, one for all nodes of a form."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.known: dict[str, tuple[Form, str | Node | None]] = {}

    def of(self, node: Node) -> str | Node | None:
        """Return what `attempt` does."""
        if (reason := self.graph.excluded(node)) is not None:
            return reason
        form = form_of([node], self.graph.resolved, extent_text, self.graph.described, self._noted)
        if form.text not in self.known:
            self.known[form.text] = form, attempt(self.graph, node)
        before, found = self.known[form.text]
        return before.moved(form)[found] if isinstance(found, torch.fx.Node) else found

    def _noted(self, node: Node) -> object:
        """Return which of the values of a node are read."""
        return sorted({u.args[1] for u in node.users if is_part(u)})


def extent_text(node: Node) -> str | None:
    """Return an extent as text; None of any other value."""
    return str(node.meta["val"]) if is_extent(node) else None


def _check_open(graph: Graph, node: Node, block: Block) -> None:
    """Raise Unsupported for an open extent of a result that no operand has: a call could not bind it."""
    known = names_of_dims(d for a in block.args for d in Shaped.of(a.type).dims)
    for meta in graph.metas(node):
        for dim in meta.dims if meta else ():
            if not set(dim_names(dim)) <= known:
                raise Unsupported(f"the open extent {dim}, which no operand of it has")
    for op in block.ops:
        if isinstance(op, ExtentOp) and not set(dim_names(op.extent.data)) <= known:
            raise Unsupported(f"the open extent {op.extent.data}, which no operand of it has")


def _is_used(node: Node, index: int) -> bool:
    return any(u.target is operator.getitem and u.args[1] == index for u in node.users)


def returned(captured: Captured) -> list[str]:
    """Return the names of the nodes whose values leave the graph."""
    leaves: list[Any] = torch.utils._pytree.tree_leaves(captured.structure, is_leaf=_is_ref)
    return [v.node for v in leaves if isinstance(v, Ref)] + [m.node for m in captured.mutations]


def _is_ref(value: object) -> bool:
    return isinstance(value, Ref)


def partition(graph: Graph, judge: Judge | None = None, divide: Divide = lambda piece: [piece]) -> list[Step]:
    """Partition a graph into steps in order, with as few and as large pieces as possible.

    Without a `judge` everything that `mu` says is in a piece. With one, only what it lets pass: views of
    what no kernel makes are left to torch then, where they cost nothing. Pieces are divided by `divide`.
    """
    reasons = classify(graph, judge)
    in_order = [n for n in graph.nodes if n in reasons and keeps_place(n)]
    graph.before = dict(zip(in_order[1:], in_order, strict=False))
    steps: list[Step] = []
    for group in _groups(graph, reasons):
        steps += [group] if isinstance(group, Opaque) else divide(group)
    return _ordered(graph, steps)


def classify(graph: Graph, judge: Judge | None) -> dict[Node, str]:
    """Return why each opaque node is that; finds the graph's nodes, aliases and constants too."""
    called = [n for n in graph.captured.graph.nodes if n.op == "call_function"]
    graph.prepared = [n for n in called if is_prepared(n)]
    graph.nodes = [n for n in called if not is_prepared(n)]
    reasons: dict[Node, str] = {}
    leaving = set(returned(graph.captured))
    changing = {m.target for m in graph.captured.mutations}
    attempts = _Attempts(graph)
    for node in graph.nodes:
        if is_part(node):
            if (producer := node.args[0]) in reasons:
                reasons[node] = reasons[producer]
            continue
        found = EXTENT if is_host(node) else attempts.of(node)
        if isinstance(found, str):
            reasons[node] = found
        elif found is not None:
            is_late = graph.captured.inputs.get(found.name) in changing  # it is read after it has changed
            if (node.name in leaving and _needs_copy(graph, node, found, leaving, reasons)) or (
                is_late and _copies(node)
            ):
                reasons[node] = "a copy"
            else:
                graph.aliases[node] = found
        elif all(graph.resolved(s) in graph.constants for s in tensor_inputs(node)):
            graph.constants.add(node)
        elif judge and is_free(graph, node, reasons):
            reasons[node] = VIEW
        elif judge and (problem := judge(_alone(node))):
            reasons[node] = problem
    if judge:
        expand_in_kernels(graph, reasons, lambda view: judge(_alone(view)) is None)
        free_ends(graph, reasons)
    _needed_constants(graph, reasons, leaving)
    return reasons


def _alone(node: Node) -> Piece:
    return Piece([node, *filter(is_part, node.users)])


def _needs_copy(
    graph: Graph, node: Node, found: Node, leaving: Set[str], reasons: Mapping[Node, str]
) -> bool:
    """Whether a result that equals another value has to be a tensor of its own.

    It is one already where a kernel makes the value, and no other result of the graph is that value.
    """
    if found.op == "placeholder" or not _copies(node):
        return found.op == "placeholder"
    maker = found.args[0] if is_part(found) else found
    may_be_view = found in reasons or getattr(maker.target, "overloadpacket", None) in graph.free_ends
    return may_be_view or any(n.name in leaving for n in names_of(graph, found) if n is not node)


def _copies(node: Node) -> bool:
    """Whether a node has memory of its own by torch's rules, though its value is that of another."""
    return not node.target._schema.returns[0].alias_info


def _needed_constants(graph: Graph, reasons: dict[Node, str], leaving: set[str]) -> None:
    """Leave constants to torch that it needs or that leave the graph, with all that they are made of."""
    known = -1
    while known != len(reasons):
        known = len(reasons)
        _move_constants(graph, reasons, leaving)


def _move_constants(graph: Graph, reasons: dict[Node, str], leaving: set[str]) -> None:
    for node in graph.nodes:
        if node in graph.constants and any(graph.resolved(s) in reasons for s in tensor_inputs(node)):
            reasons[node] = "a constant"
            graph.constants.discard(node)
    for node in reversed(graph.nodes):
        if node in graph.constants:
            names = names_of(graph, node)
            if any(n.name in leaving or any(u in reasons for u in n.users) for n in names):
                reasons[node] = "a constant"
                graph.constants.discard(node)


def _groups(graph: Graph, reasons: Mapping[Node, str]) -> Iterator[Step]:
    """Pieces and opaque calls. Nodes of one piece hang together, and nothing opaque lies between them."""
    phases: dict[Node, int] = {}
    for node in graph.nodes:
        if node in graph.aliases or node in graph.constants:
            continue
        opaque = node in reasons
        phase = max((phases.get(s, 0) for s in graph.reads(node, opaque)), default=0)
        # Kernels run in even phases, PyTorch in odd ones.
        phases[node] = phase + (phase % 2 != opaque)
    leader = {node: node for node in phases if node not in reasons}
    _delay(graph, phases, leader)

    def find(node: Node) -> Node:
        while leader[node] is not node:
            node = leader[node]
        return node

    for node in leader:
        for source in map(graph.resolved, tensor_inputs(node)):
            if source in leader and phases[source] == phases[node]:
                leader[find(node)] = find(source)
    pieces: dict[Node, Piece] = {}
    for node in graph.nodes:
        if node in leader:
            pieces.setdefault(find(node), Piece([])).nodes.append(node)
        elif node in phases:
            yield Opaque(node, reasons[node])
    yield from pieces.values()


def _delay(graph: Graph, phases: dict[Node, int], kernels: Mapping[Node, Node]) -> None:
    """Compute what only kernels read as late as that, where it may be part of what reads it."""
    for node in reversed(kernels):
        users = readers(graph, node)
        if users and not is_part(node) and all(u in kernels and not is_part(u) for u in users):
            phases[node] = min(phases[u] for u in users)


def readers(graph: Graph, node: Node) -> list[Node]:
    """Return the readers of a node's value, under any of its names."""
    return [u for name in names_of(graph, node) for u in name.users if u not in graph.aliases]


def names_of(graph: Graph, node: Node) -> Iterator[Node]:
    """Return a node and the nodes that are only other names of its value."""
    return postorder(node, lambda n: [u for u in n.users if u in graph.aliases])


def _ordered(graph: Graph, steps: list[Step]) -> list[Step]:
    """Sort steps after those whose values they read, else in the order of the graph."""
    owner: dict[Node, int] = {}
    for n, step in enumerate(steps):
        for node in nodes_of(step):
            owner[node] = n
    place = {node: n for n, node in enumerate(graph.nodes)}
    rank = sorted(range(len(steps)), key=lambda n: place[nodes_of(steps[n])[0]])
    done: set[int] = set()
    result: list[Step] = []

    waiting = [*reversed(rank)]
    while waiting:
        n = waiting[-1]
        first = [owner[s] for s in sources_of(graph, steps[n]) if s in owner]
        if missing := [m for m in first if m != n and m not in done]:
            waiting += reversed(missing)
            continue
        waiting.pop()
        if n not in done:
            done.add(n)
            result.append(steps[n])
    return result


def nodes_of(step: Step) -> list[Node]:
    """Return the nodes of a step."""
    return step.nodes if isinstance(step, Piece) else [step.node]


def sources_of(graph: Graph, step: Step) -> list[Node]:
    """Return the values that a step reads and does not make, in the order of first use."""
    own = set(nodes_of(step))
    found: dict[Node, None] = {}
    for node in nodes_of(step):
        for source in graph.reads(node, isinstance(step, Opaque)):
            if source not in own and source not in graph.constants:
                found.setdefault(source)
    return list(found)


def made_of(graph: Graph, node: Node) -> list[Node]:
    """Return the constants that a node needs, each after those that it needs."""

    def needs(node: Node) -> list[Node]:
        return [s for s in map(graph.resolved, tensor_inputs(node)) if s in graph.constants]

    return list(postorder(node, needs))[:-1]
