"""The epilogue of a multistage kernel: a C++ struct for vectors of the tile (`mucc/vectors.cuh`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from mucc.codegen.memory import CUTLASS_TYPES, ZERO, EmissionError, Scalar
from mucc.codegen.reductions import REDUCTIONS
from mucc.dialects.cutlass.nodes import ComputeOp, LoadNode, ReductionNode
from mucc.dialects.mu.types import TensorType, dtype_bytes
from mucc.kernels.gemm.emission.graph import Epilogue, Node, ordered
from mucc.kernels.gemm.emission.problem import Matrix, operand_value
from mucc.kernels.gemm.nodes import (
    AccFetchOp,
    AuxLoadOp,
    AuxStoreOp,
    ColBroadcastOp,
    RowBroadcastOp,
    ScatterDOp,
    SrcFetchOp,
    StoreDOp,
)

WIDEST, USUAL = 8, 4
"""Elements of a vector: the most, and how many where no matrix says how many are aligned."""

MatrixNode = SrcFetchOp | AuxLoadOp | StoreDOp | AuxStoreOp


@dataclass
class VectorEpilogue(Epilogue):
    """What the text of such an epilogue is made of; `root` has the struct's name.

    `granules` says how many bytes each matrix may be accessed by, and `tile` is what `threads` compute.
    """

    granules: Mapping[Operation, int] = field(default_factory=dict[Operation, int])
    tile: tuple[int, ...] = ()
    threads: int = 0
    members: list[str] = field(default_factory=list[str])
    state: list[str] = field(default_factory=list[str])
    begin: list[str] = field(default_factory=list[str])
    visit: list[str] = field(default_factory=list[str])
    end: list[str] = field(default_factory=list[str])
    elements: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    """A C++ expression of element `i` of each value."""

    def build(self) -> VectorEpilogue:
        """Write all nodes, then the struct."""
        destination = self.op.destination
        if isinstance(destination, ScatterDOp):
            raise EmissionError("rows are scattered by grouped contractions only")
        self.matrices = {op: self._matrix(op) for op in self.op.nodes if isinstance(op, MatrixNode)}
        self.along = 1 if destination is None or self.matrices[destination].is_row_major else 0
        self.length = self.tile[self.along]
        self.width = self._width()
        for op in ordered(self.op.nodes):
            match op:
                case AccFetchOp():
                    self._value(op, op.result, "acc", "acc[i]")
                case LoadNode():
                    self._value(op, op.result, *self._loaded(op))
                case ComputeOp():
                    name = f"y{len(self.bodies)}"
                    self._apply(name, self.body_of(op, name), [self.elements[v] for v in self.inputs(op)])
                    self._value(op, op.result, name, f"{name}[i]")
                case AuxStoreOp():
                    self._store(self._member("aux", op), op.value)
                case ReductionNode():
                    self._reduce(op)
                case StoreDOp():
                    continue
                case _:
                    raise EmissionError(f"{op.name} in the epilogue of a gemm")
        if destination is not None:
            self._store_d(destination)
        self.root = Node("Visitor")
        return self

    def _matrix(self, op: MatrixNode) -> Matrix:
        return self.problem.matrix(op.source if isinstance(op, LoadNode) else op.destination)

    def _aligned(self, op: MatrixNode) -> int:
        """How many neighbours along a line may be accessed at once; 0 where they are apart in memory."""
        matrix = self.matrices[op]
        if matrix.unit != self.along:
            return 0
        return max(1, self.granules.get(op, 16) // dtype_bytes(matrix.memory.type.element_type))

    def _width(self) -> int:
        """Elements of a thread's vector: as many as every matrix is aligned to.

        More where threads would otherwise have several places in a line.
        """
        aligned = [n for op in self.matrices if (n := self._aligned(op))]
        return max(min([*aligned, WIDEST] if aligned else [USUAL]), self.length // self.threads)

    def _value(self, op: Operation, result: SSAValue, name: str, element: str) -> None:
        self.nodes[op] = Node("")
        self.names[result] = name
        self.elements[result] = element

    # Loads

    def _loaded(self, op: LoadNode) -> tuple[str, str]:
        """Add the read of a node; return its name for a body, and its element `i`."""
        if isinstance(op, SrcFetchOp):
            member = self._member("source", op, "p.c")
            return self.matrices[op].memory.name, self._load_vector(member)
        if isinstance(op, AuxLoadOp):
            member = self._member("aux", op)
            return self.matrices[op].memory.name, self._load_vector(member)
        if not isinstance(op.source.type, TensorType):
            scalar = self.problem.places.find(op.source)
            assert isinstance(scalar, Scalar)
            member = self._numbered("scalar", scalar.name)
            place = self.operand(f"{{nullptr, {{}}, {scalar.expression}}}")
            self._declare("mucc::multistage::Number<float>", member, place)
            return scalar.name, self._load_number(member)
        memory = self.problem.strides(op.source)[0]
        element = CUTLASS_TYPES[memory.type.dtype]
        axis = self.problem.axis(op)
        batch = self.problem.vector(op.source, axis)[1]
        member = self._numbered({1: "row", 0: "col", None: "scalar"}[axis], memory.name)
        place = self.operand(operand_value(memory, (ZERO, ZERO, batch), None))
        match op:
            case RowBroadcastOp() | ColBroadcastOp() if axis == self.along:
                self._declare(f"mucc::multistage::Along<{element}>", member, place)
                self.state.append(f"Vector {member};")
                self.begin.append(f"p.{member}.load(at, extent, {member});")
                return memory.name, f"{member}[i]"
            case RowBroadcastOp() | ColBroadcastOp():
                self._declare(f"mucc::multistage::PerLine<{element}>", member, place)
            case _:
                self._declare(f"mucc::multistage::Number<{element}>", member, place)
        return memory.name, self._load_number(member)

    def _numbered(self, prefix: str, name: str) -> str:
        return self.namer(f"{prefix}_{len(self.operands) if self.canonical else name}")

    def _member(self, prefix: str, op: MatrixNode, place: str | None = None) -> str:
        """Add a matrix to the parameters. `place` is its place in the problem, by default an extra one."""
        matrix = self.matrices[op]
        member = self._numbered(prefix, matrix.memory.name)
        element = CUTLASS_TYPES[matrix.memory.type.dtype]
        access = min(self._aligned(op), self.width)
        self._declare(
            f"mucc::multistage::Matrix<{element}, {access}>", member, place or self.operand(matrix.value)
        )
        return member

    def _declare(self, type: str, member: str, place: str) -> None:
        self.members.append(f"{type} {member};")
        self.locals.append(f"to.{member}.set({place}, {{{1 - self.along}, {self.along}}});")

    def _load_vector(self, member: str) -> str:
        self.visit += [f"Vector {member};", f"p.{member}.load(at, {member});"]
        return f"{member}[i]"

    def _load_number(self, member: str) -> str:
        self.visit.append(f"float const {member} = p.{member}.load(at);")
        return member

    # What is computed and written

    def body_of(self, op: ComputeOp, name: str) -> str:
        """Add the body of a node and return its C++ name."""
        self.names[op.result] = name
        return self.body(op)

    def _apply(self, name: str, body: str, inputs: list[str]) -> None:
        self.visit += [
            f"Vector {name};",
            "CUTLASS_PRAGMA_UNROLL",
            f"for (int i = 0; i < kWidth; ++i) {name}[i] = mucc::gemm::apply<{body}>({', '.join(inputs)});",
        ]

    def _vector(self, value: SSAValue) -> str:
        """Return the vector of a value, which is added if it is not there yet."""
        element = self.elements[value]
        if element.endswith("[i]"):
            return element.removesuffix("[i]")
        name = self.namer(f"{element}_s")
        self.visit += [f"Vector {name};", f"{name}.fill({element});"]
        self.elements[value] = f"{name}[i]"
        return name

    def _store(self, member: str, value: SSAValue) -> None:
        vector = self._vector(value)
        self.visit.append(f"p.{member}.store(at, {vector});")

    def _store_d(self, op: StoreDOp) -> None:
        member = self._member("d", op, "p.d")
        if isinstance(op.value.owner, ComputeOp):
            self._store(member, op.value)
            return
        # Nothing is computed on the way to D. The kernel is then the same as where something is.
        name = self.namer("y")
        self._apply(name, self.passing_body(self.names[op.value]), [self.elements[op.value]])
        self.visit.append(f"p.{member}.store(at, {name});")

    def _reduce(self, op: ReductionNode) -> None:
        axis, memory, batch = self.reduction_of(op)
        type = {self.along: "ReduceLines", None: "ReduceAll"}.get(axis, "ReduceAlong")
        member = self._numbered("reduced", memory.name)
        place = self.operand(operand_value(memory, (ZERO, ZERO, batch), None))
        self._declare("mucc::multistage::Target", member, place)
        kind = REDUCTIONS[op.kind.data]
        self.state.append(f"mucc::multistage::{type}<{kind}, kWidth, kLanes> {member};")
        vector = self._vector(op.value)
        self.visit.append(f"{member}.add(p.{member}, at, {vector});")
        self.end.append(f"{member}.end(p.{member}, at, extent);")

    def struct(self) -> list[str]:
        """Return the C++ of the struct."""
        return [
            "struct Visitor {",
            f"  static constexpr int kWidth = {self.width}, kLanes = {self.length // self.width};",
            f"  static constexpr bool kColumns = {'true' if self.along == 0 else 'false'};",
            "  using At = mucc::multistage::At;",
            "  using Vector = mucc::multistage::Vector<kWidth>;",
            "  struct Params {",
            *(f"    {line}" for line in self.members),
            "  };",
            "  struct State {",
            *(f"    {line}" for line in self.state),
            "    CUTLASS_DEVICE State(Params const& p, At const& at, int extent) {",
            *(f"      {line}" for line in self.begin),
            "    }",
            "    CUTLASS_DEVICE void visit(Params const& p, At const& at, Vector const& acc) {",
            *(f"      {line}" for line in self.visit),
            "    }",
            "    CUTLASS_DEVICE void end(Params const& p, At const& at, int extent) {",
            *(f"      {line}" for line in self.end),
            "    }",
            "  };",
            "};",
        ]
