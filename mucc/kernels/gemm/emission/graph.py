"""The epilogue of a contraction as CUTLASS visitor types: a tree where it is one, else a graph in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from mucc.codegen.body import Body, compute_body, identity_body
from mucc.codegen.memory import CUTLASS_TYPES, ZERO, EmissionError, Memory, Product, Scalar
from mucc.codegen.names import Namer
from mucc.codegen.reductions import REDUCTIONS, identity
from mucc.dialects.cutlass.nodes import ComputeOp, InsideOp, LoadNode, ReductionNode, StoreNode
from mucc.dialects.mu.types import TensorType
from mucc.kernels.gemm.emission.problem import Problem, operand_value, stride_type
from mucc.kernels.gemm.nodes import (
    AccFetchOp,
    AuxLoadOp,
    AuxStoreOp,
    ColBroadcastOp,
    RowBroadcastOp,
    ScalarBroadcastOp,
    SrcFetchOp,
    StoreDOp,
)
from mucc.kernels.gemm.op import GemmOp

EXACT = "mucc::gemm::Exact"
"""The node that passes on sums of integers: a body would see them as floats."""

# Leaves that cost nothing to have twice, so that they do not make a graph of a tree.
_FREE = AccFetchOp | SrcFetchOp | ScalarBroadcastOp


@dataclass(frozen=True)
class Node:
    """A visitor type, and the C++ expression of its host arguments."""

    type: str
    arguments: str = "{}"


def ordered(nodes: Iterable[Operation]) -> list[Operation]:
    """Sort the nodes of an epilogue: those that read come first, ordered by what they read.

    So programs that say the same in another order have the same kernel but for its bodies.
    """

    def rank(op: Operation) -> tuple[int, str, str]:
        match op:
            case AccFetchOp():
                return (0, "second" if op.second else "", "")
            case SrcFetchOp():
                return (1, "", "")
            case InsideOp():
                return (2, op.name, "")
            case LoadNode():
                type = op.source.type
                return (2, op.name, type.dtype if isinstance(type, TensorType) else "by value")
            case _:
                return (3, "", "")

    return sorted(nodes, key=rank)


@dataclass
class Epilogue:
    """What the text of one epilogue is made of.

    `usings` and `bodies` are types, and `locals` make CUTLASS's arguments of a problem `p`; `operands` are
    what the program gives to `p`, and `fills` what it does before the launch. With `canonical`, types are
    called after their position instead of what the program calls its tensors.
    """

    op: GemmOp
    problem: Problem
    namer: Namer
    element_d: str
    canonical: bool = False
    bodies: list[Body] = field(default_factory=list[Body])
    usings: list[str] = field(default_factory=list[str])
    locals: list[str] = field(default_factory=list[str])
    operands: list[str] = field(default_factory=list[str])
    fills: list[str] = field(default_factory=list[str])
    nodes: dict[Operation, Node] = field(default_factory=dict[Operation, Node])
    names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    root: Node = Node("")
    trees: int = 0

    def build(self) -> Epilogue:
        """Write all nodes, then the visitor; `root` is it."""
        for op in ordered(self.op.nodes):
            match op:
                case AccFetchOp():
                    self.names[op.result] = "acc"
                    self.nodes[op] = self.alias("Acc", "fusion::Sm90AccFetch")
                case SrcFetchOp():
                    memory = self.problem.strides(op.source)[0]
                    self.names[op.result] = memory.name
                    self.nodes[op] = self.alias("Source", "fusion::Sm90SrcFetch<ElementC>")
                case LoadNode():
                    self.nodes[op] = self._load(op)
                case ComputeOp():
                    self.names[op.result] = f"y{len(self.bodies)}"
                    self.nodes[op] = self._compute(op)
                case ReductionNode():
                    self.nodes[op] = self._reduction(op)
                case AuxStoreOp():
                    self.nodes[op] = self._aux_store(op)
                case StoreDOp():
                    continue
                case _:
                    raise EmissionError(f"{op.name} in the epilogue of a gemm")
        self.root = self._tree() or self._graph()
        return self

    # Nodes

    def alias(self, hint: str, type: str, arguments: str | None = None) -> Node:
        """Names a type, and where it has arguments a local variable for them."""
        name = self.namer(hint)
        self.usings.append(f"using {name} = {type};")
        if arguments is None:
            return Node(name)
        local = self.namer(name.lower())
        self.locals.append(f"{name}::Arguments const {local}{arguments};")
        return Node(name, local)

    def operand(self, value: str) -> str:
        """Hands a tensor or a number to the problem; the C++ name by which CUTLASS's arguments find it."""
        self.operands.append(value)
        return self.place(len(self.operands) - 1)

    @staticmethod
    def place(index: int) -> str:
        """Return the C++ name by which CUTLASS's arguments find an operand."""
        return f"p.extra[{index}]"

    def number(self, op: LoadNode) -> tuple[str, str]:
        """Hands a number to the problem: what to call the type of the node, and where it finds it."""
        scalar = self.problem.places.find(op.source)
        assert isinstance(scalar, Scalar)
        self.names[op.result] = scalar.name
        hint = self.hint("Scalar", scalar.name)
        return hint, self.operand(f"{{nullptr, {{}}, {scalar.expression}}}")

    def tensor(self, memory: Memory, strides: Sequence[Product], unit: int | None) -> tuple[str, str]:
        """Hands a tensor to the problem, as `operand` does; the C++ name, and an expression of its stride."""
        place = self.operand(operand_value(memory, strides, unit))
        return place, f"mucc::gemm::stride<{stride_type(strides, unit)}>({place})"

    def hint(self, prefix: str, name: str) -> str:
        """Return a name for the next operand's type."""
        return f"{prefix}_{len(self.operands) if self.canonical else name}"

    def _load(self, op: LoadNode) -> Node:
        if not isinstance(op.source.type, TensorType):
            hint, place = self.number(op)
            return self.alias(
                hint, "fusion::Sm90ScalarBroadcast<float>", f"{{{{{place}.value}}, {{nullptr}}, {{}}}}"
            )
        memory = self.problem.strides(op.source)[0]
        self.names[op.result] = memory.name
        element = CUTLASS_TYPES[memory.type.dtype]
        match op:
            case AuxLoadOp():
                matrix = self.problem.matrix(op.source)
                hint = self.hint("Aux", memory.name)
                place, stride = self.tensor(memory, matrix.strides, matrix.unit)
                return self.alias(
                    hint,
                    f"mucc::gemm::AuxLoad<Tiles, {element}, {matrix.type}>",
                    f"{{{place}.as<{element}>(), {element}(0), {stride}}}",
                )
            case RowBroadcastOp() | ColBroadcastOp():
                axis = self.problem.axis(op)
                kind = "Row" if axis == 1 else "Col"
                strides = self.vector_strides(op.source, axis)
                hint = self.hint(kind, memory.name)
                place, stride = self.tensor(memory, strides, axis)
                return self.alias(
                    hint,
                    f"fusion::Sm90{kind}Broadcast<0, TileShape, {element}, float, "
                    f"{stride_type(strides, axis)}>",
                    f"{{{place}.as<{element}>(), {element}(0), {stride}}}",
                )
            case _:
                strides = self.vector_strides(op.source, None)
                hint = self.hint("Scalar", memory.name)
                place, stride = self.tensor(memory, strides, None)
                return self.alias(
                    hint,
                    f"fusion::Sm90ScalarBroadcast<{element}, {stride_type(strides, None)}>",
                    f"{{{{{element}(0)}}, {{{place}.as<{element}>()}}, {{{stride}}}}}",
                )

    def vector_strides(self, value: SSAValue, axis: int | None) -> tuple[Product, Product, Product]:
        """Return the strides of a vector along `axis`, with strides that are fixed as zeros."""
        return (ZERO, ZERO, self.problem.vector(value, axis)[1])

    def _compute(self, op: ComputeOp) -> Node:
        name = self.body(op)
        uses = [use.operation for use in op.result.uses]
        only_d = len(uses) == 1 and isinstance(uses[0], StoreDOp)
        return Node(f"mucc::gemm::Compute<{name}, {'ElementD' if only_d else 'float'}>")

    def body(self, op: ComputeOp) -> str:
        """Add the body of a node and return its C++ name."""
        name = self.namer(f"Body{len(self.bodies)}")
        parameters = Namer()
        names = [parameters(self.names[v]) for v in op.inputs]
        order = [op.inputs.index(v) for v in self.inputs(op)]
        self.bodies.append(compute_body(name, op, names, order))
        return name

    def passing_body(self, parameter: str) -> str:
        """Add a body that returns its input and return its C++ name."""
        name = self.namer(f"Body{len(self.bodies)}")
        self.bodies.append(identity_body(name, parameter))
        return name

    def inputs(self, op: ComputeOp) -> list[SSAValue]:
        """Return the inputs of a body in the order of nodes, which the text of a program does not change."""
        position = {node: i for i, node in enumerate(self.nodes)}
        return sorted(op.inputs, key=lambda v: position[v.owner] if isinstance(v.owner, Operation) else -1)

    def _aux_store(self, op: AuxStoreOp) -> Node:
        matrix = self.problem.matrix(op.destination)
        element = CUTLASS_TYPES[matrix.memory.type.dtype]
        hint = self.hint("Aux", matrix.memory.name)
        place, stride = self.tensor(matrix.memory, matrix.strides, matrix.unit)
        return self.alias(
            hint,
            f"mucc::gemm::AuxStore<Tiles, {element}, {matrix.type}>",
            f"{{{place}.as<{element}>(), {stride}}}",
        )

    def _reduction(self, op: ReductionNode) -> Node:
        axis, memory, batch = self.reduction_of(op)
        strides = (ZERO, ZERO, batch)
        type = stride_type(strides, axis)
        kind = REDUCTIONS[op.kind.data]
        prefix, type_name = {
            1: ("Rows", f"RowReduction<{kind}, TileShape, {type}>"),
            0: ("Cols", f"ColReduction<{kind}, TileShape, {type}>"),
            None: ("All", f"ScalarReduction<{kind}, {type}>"),
        }[axis]
        hint = self.hint(prefix, memory.name)
        place, stride = self.tensor(memory, strides, axis)
        start = identity(op.kind.data)
        return self.alias(hint, f"mucc::gemm::{type_name}", f"{{{place}.as<float>(), {start}, {stride}}}")

    def reduction_of(self, op: ReductionNode) -> tuple[int | None, Memory, Product]:
        """Return axis, place and batch stride of a reduction's result; it is filled before the launch."""
        axis = self.problem.axis(op)
        memory, batch = self.problem.reduced(op.destination, axis)
        if memory.type.dtype != "f32":
            raise EmissionError(
                f"{memory.name} is {memory.type.dtype}, but reductions in an epilogue are f32"
            )
        places = self.problem.places
        count = places.count(self.problem.extents(axis))
        rows = "" if batch.is_zero else f", {places.count(self.problem.batch)}, {batch}"
        start = identity(op.kind.data)
        self.fills.append(f"mucc::fill(c, {memory.data('float')}, {start}, {count}{rows})")
        return axis, memory, batch

    # Composition

    def _stores(self, value: SSAValue) -> list[StoreNode]:
        return [op for op in self.op.stores if op.value is value and not isinstance(op, StoreDOp)]

    def _readers(self, value: SSAValue) -> int:
        """How often a value is read, but for stores that pass it on."""
        return sum(isinstance(use.operation, ComputeOp | StoreDOp) for use in value.uses)

    def _values(self) -> list[SSAValue]:
        return [op.results[0] for op in self.op.nodes if op.results]

    def _tree(self) -> Node | None:
        """Nested tree visitors, or None where a value is needed twice or there are several roots."""
        values = self._values()
        if any(self._readers(v) > 1 and not isinstance(v.owner, _FREE) for v in values):
            return None
        destination = self.op.destination
        loose = [v for v in values if not self._readers(v) and self._stores(v)]
        roots = [destination.value, *loose] if destination is not None else loose
        if len(roots) != 1:
            return None
        node = self._subtree(roots[0], set())
        if destination is not None and self._is_exact(destination):
            node = self._nest(Node(EXACT), [node])
        elif destination is not None and not isinstance(destination.value.owner, ComputeOp):
            # Nothing is computed on the way to D. The kernel is then the same as where something is.
            name = self.passing_body(self.names[destination.value])
            node = self._nest(Node(f"mucc::gemm::Compute<{name}, ElementD>"), [node])
        return node

    def _subtree(self, value: SSAValue, stored: set[SSAValue]) -> Node:
        owner = value.owner
        assert isinstance(owner, Operation)
        node = self.nodes[owner]
        if isinstance(owner, ComputeOp):
            node = self._nest(node, [self._subtree(v, stored) for v in self.inputs(owner)])
        if value not in stored:
            stored.add(value)
            for store in self._stores(value):
                node = self._nest(self.nodes[store], [node])
        return node

    def _nest(self, node: Node, children: Sequence[Node]) -> Node:
        type = f"fusion::Sm90EVT<{', '.join([node.type, *(c.type for c in children)])}>"
        self.trees += 1
        return self.alias(
            f"Tree{self.trees - 1}",
            type,
            "{" + ", ".join([*(c.arguments for c in children), node.arguments]) + "}",
        )

    @staticmethod
    def _is_exact(store: StoreNode) -> bool:
        """Whether sums of integers are stored as they are."""
        type = store.destination.type
        assert isinstance(type, TensorType)
        return isinstance(store.value.owner, AccFetchOp) and type.dtype == "s32"

    def _graph(self) -> Node:
        """One topological visitor; its last node gives what D gets."""
        destination = self.op.destination
        order = list(self.nodes)
        last = destination.value.owner if destination is not None else None
        if isinstance(last, ComputeOp) and len(set(last.result.uses)) == 1:
            order.remove(last)
            order.append(last)
        position = {op: i for i, op in enumerate(order)}

        def sources(op: Operation) -> list[int]:
            if isinstance(op, ComputeOp):
                return [position[v.owner] for v in self.inputs(op) if isinstance(v.owner, Operation)]
            if isinstance(op, StoreNode) and isinstance(owner := op.value.owner, Operation):
                return [position[owner]]
            return []

        nodes = [self.nodes[op] for op in order]
        edges = [sources(op) for op in order]
        if last is not None and order[-1] is not last:
            assert isinstance(last, Operation)
            exact = destination is not None and self._is_exact(destination)
            nodes.append(Node(EXACT if exact else "mucc::gemm::Compute<mucc::gemm::Identity, ElementD>"))
            edges.append([position[last]])
        sequences = ", ".join(f"cute::seq<{', '.join(map(str, e))}>" for e in edges)
        types = ", ".join(n.type for n in nodes)
        type = f"fusion::Sm90TopologicalVisitor<float, cute::tuple<{sequences}>, {types}>"
        return self.alias("Graph", type, "{" + ", ".join(n.arguments for n in nodes) + "}")
