"""Skinny contractions: the text around the kernels of `mucc/skinny.cuh`.

Light enough that NVRTC compiles a kernel with its epilogue in place, as it does map and reduction kernels:
there is no skeleton, and nothing to splice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mucc.codegen.body import compute_body
from mucc.codegen.kernel_code import Headers
from mucc.codegen.memory import ONE, VIEW_TYPES, ZERO, EmissionError, Memory, Product, Scalar
from mucc.codegen.names import Namer, comment_text, string_literal, words
from mucc.codegen.reductions import REDUCTIONS, identity
from mucc.codegen.texts import Entry, Texts, used_locals
from mucc.dialects.cutlass.nodes import ComputeOp, InsideOp, LoadNode, ReductionNode, StoreNode
from mucc.dialects.cutlass.ops import is_reproducible
from mucc.dialects.mu.schedule_attributes import SchedulerKind
from mucc.dialects.mu.types import Dim, Shaped, TensorType
from mucc.kernels.gemm.description import config_of
from mucc.kernels.gemm.emission.gemm import Gemm
from mucc.kernels.gemm.emission.graph import Epilogue, ordered
from mucc.kernels.gemm.emission.problem import Matrix
from mucc.kernels.gemm.nodes import AccFetchOp, MatrixStore
from mucc.kernels.gemm.scheduling.skinny import SPLITS, WARPS, form_of, weights_are_a

_LAUNCH_HEADER = "mucc/skinny_launch.h"

_MEMBERS = words(
    """
    Op Work Element FewElement Sum P p c to codes inside acc run finish weights few
    kAlongK kExact kMixed kShifted kGroup scales zeros kFew kMany kStep kStages kSplits kMostSplits
    """
)

_ACCESSES = {"pieces": "kPieces", "mixed": "kPiecesOfWeights", "elements": "kElements"}
"""How kernels read their operands, in the order of `mucc::skinny::Access`, by what they are called."""


@dataclass
class SkinnyEpilogue(Epilogue):
    """The members of `Op` and the statements of `finish`, from the nodes of an epilogue.

    `exchanged` says that the kernel's rows, not its columns, lie along the weights.
    """

    weights_first: bool = False
    members: list[str] = field(default_factory=list[str])
    values: list[str] = field(default_factory=list[str])
    statements: list[str] = field(default_factory=list[str])
    reduced: list[str] = field(default_factory=list[str])

    def build(self) -> SkinnyEpilogue:
        for op in ordered(self.op.nodes):
            match op:
                case AccFetchOp():
                    self._lanes(op, "acc", "mucc::Lanes<1>(float(acc))")
                case LoadNode():
                    self._value(op)
                case ComputeOp():
                    self._body(op)
                case ReductionNode():
                    self._reduce(op)
                case InsideOp():
                    inside = self._contains(op.range)
                    self._lanes(op, "inside", f"mucc::Lanes<1>({inside} ? 1.0f : 0.0f)")
                case MatrixStore() if op.columns is not None:
                    self._store_range(op, op.columns)
                case StoreNode():
                    memory, strides = self.problem.strides(op.destination)
                    member = self._view(memory, strides)
                    exact = isinstance(op.value.owner, AccFetchOp) and memory.type.dtype == "s32"
                    self.statements.append(
                        f"*mucc::place({member}, p) = acc;"
                        if exact
                        else f"mucc::store({member}, p, {self.names[op.value]});"
                    )
                case _:
                    raise EmissionError(f"{op.name} in the epilogue of a skinny gemm")
        return self

    def _store_range(self, op: MatrixStore, columns: tuple[Dim, Dim]) -> None:
        """Store a range of columns, the first of them to the first column of a matrix."""
        memory, strides = self.problem.strides(op.destination)
        before = self.problem.places.extent(columns[0]) * Product(-1)
        if not before.is_zero:
            memory = replace(memory, offset=(*memory.offset, before * strides[self._column_axis]))
        member = self._view(memory, strides)
        inside = self._contains(columns)
        self.statements.append(f"if ({inside}) mucc::store({member}, p, {self.names[op.value]});")

    @property
    def _column_axis(self) -> int:
        """The kernel's axis, 0 for rows or 1, along which the columns of the product lie."""
        return 0 if self.problem.exchanged else 1

    def _contains(self, columns: tuple[Dim, Dim]) -> str:
        """Add a member for a range of columns, and return the condition that an element is in it."""
        member = self.namer("columns")
        low, count = map(self.problem.places.extent, columns)
        self.members.append(f"mucc::Range {member};")
        self.values.append(f"{{{low}, {count}}}")
        along_weights = self._column_axis == (0 if self.weights_first else 1)
        return f"mucc::contains({member}, p.at[{2 if along_weights else 1}])"

    def _lanes(self, op: AccFetchOp | LoadNode | ComputeOp | InsideOp, hint: str, text: str) -> None:
        name = self.namer(f"{hint}_v")
        self.names[op.result] = name
        self.statements.append(f"auto const {name} = {text};")

    def _value(self, op: LoadNode) -> None:
        if not isinstance(op.source.type, TensorType):
            scalar = self.problem.places.find(op.source)
            assert isinstance(scalar, Scalar)
            member = self.namer(scalar.name)
            self.members.append(f"float {member};")
            self.values.append(scalar.expression)
            self._lanes(op, member, f"mucc::Lanes<1>({member})")
            return
        member = self._view(*self.problem.strides(op.source))
        self._lanes(op, member, f"mucc::load<1>({member}, p)")

    def _body(self, op: ComputeOp) -> None:
        name = self.namer(f"Body{len(self.bodies)}")
        parameters = Namer()
        names = [parameters(self.names[v].removesuffix("_v")) for v in op.inputs]
        self.bodies.append(compute_body(name, op, names))
        inputs = ", ".join(self.names[v] for v in op.inputs)
        call = f"mucc::each<{name}>({inputs})" if inputs else f"mucc::Lanes<1>({name}::apply())"
        self._lanes(op, f"y{len(self.bodies) - 1}", call)

    def _reduce(self, op: ReductionNode) -> None:
        axis = self.problem.axis(op)
        memory, batch = self.problem.reduced(op.destination, axis)
        if memory.type.dtype != "f32":
            raise EmissionError(
                f"{memory.name} is {memory.type.dtype}, but reductions in an epilogue are f32"
            )
        strides = (ONE if axis == 0 else ZERO, ONE if axis == 1 else ZERO, batch)
        member = self._view(memory, strides)
        places = self.problem.places
        extents = self.problem.extents(axis)
        rows = "" if batch.is_zero else f", {places.count(self.problem.batch)}, {batch}"
        start = identity(op.kind.data)
        self.fills.append(f"mucc::fill(c, {memory.data('float')}, {start}, {places.count(extents)}{rows})")
        local = self.namer(f"{member}_r")
        self.statements.append(f"{local} = {self.names[op.value]}.of[0];")
        along_weights = axis == (0 if self.weights_first else 1)
        kind = f"{REDUCTIONS[op.kind.data]}, {'false' if along_weights else 'true'}"
        self.reduced.append(local)
        self.locals.append(f"mucc::skinny::combine<{kind}>({member}, p, inside, {local});")

    def _view(self, memory: Memory, strides: Sequence[Product]) -> str:
        """Add a member for a tensor over (batch, rows of the small operand, rows of the weights)."""
        member = self.namer(memory.name)
        rows, columns, batch = strides
        ordered_strides = (batch, columns, rows) if self.weights_first else (batch, rows, columns)
        element = VIEW_TYPES[memory.type.dtype]
        comment = comment_text(f"{memory.name}: {memory.type}")
        self.members.append(f"mucc::View<{element}, 3, mucc::Along::kAny> {member};  // {comment}")
        self.values.append(f"{{{memory.data(element)}, {{{', '.join(map(str, ordered_strides))}}}}}")
        return member

    @property
    def finish(self) -> list[str]:
        """`finish`, a member of `Work`."""
        declared = [f"    float {', '.join(f'{r} = 0.0f' for r in self.reduced)};"] if self.reduced else []
        return [
            "  template <class P, class Sum>",
            "  MUCC_DEVICE void finish(P const& p, bool inside, Sum acc) const {",
            *declared,
            "    if (inside) {",
            *(f"      {s}" for s in self.statements),
            "    }",
            *(f"    {s}" for s in self.locals),
            "  }",
        ]


class SkinnyGemm(Gemm):
    """A contraction with few rows or columns."""

    epilogue: SkinnyEpilogue

    @property
    def headers(self) -> Headers:
        header = "mucc/skinny.cuh"
        return Headers(header, device=header, host=_LAUNCH_HEADER, driver="")

    @property
    def launch_headers(self) -> tuple[str, ...]:
        return (_LAUNCH_HEADER,)

    def build_epilogue(self) -> SkinnyEpilogue:
        namer = Namer([*self.places.dim_names.values(), *_MEMBERS])
        exchanged = weights_are_a(self.tile.sizes)
        return SkinnyEpilogue(self.op, self.problem, namer, "", weights_first=exchanged).build()

    @property
    def weights(self) -> Matrix:
        """The large operand."""
        return self.a if self.epilogue.weights_first else self.b

    @property
    def few(self) -> Matrix:
        """The small operand."""
        return self.b if self.epilogue.weights_first else self.a

    def types(self) -> list[str]:
        """`Op`, what the host hands to the kernels."""
        form = form_of(config_of(self.op))
        splits = self.scheduler.splits.data if self.scheduler.kind.data == SchedulerKind.SPLIT_K else 0
        numbers = {
            "kFew": form.few,
            "kMany": form.many,
            "kStep": form.step,
            "kStages": self.stages,
            "kSplits": splits,
            "kMostSplits": SPLITS[-1] if self.target.has_clusters else 1,
        }
        flags = f"kAlongK = {_bool(form.along_k)}, kExact = {_bool(form.exact)}"
        flags += f", kMixed = {_bool(self.op.narrow is not None)}"
        if is_reproducible(self.op):
            flags += ", kReproducible = true"
        factors: list[str] = []
        if self.op.narrow is not None:
            flags += f", kShifted = {_bool(len(self.op.scales) == 2)}"
            numbers["kGroup"] = self.op.group
            factors = [
                f"  mucc::skinny::PerGroup<{VIEW_TYPES[memory.type.dtype]}> {member};"
                for member, (memory, _) in zip(("scales", "zeros"), self.group_factors, strict=False)
            ]
        return [
            "struct Op {",
            f"  using Element = {VIEW_TYPES[self.weights.memory.type.dtype]};",
            f"  using FewElement = {VIEW_TYPES[self.few.memory.type.dtype]};",
            f"  static constexpr bool {flags};",
            f"  static constexpr int {', '.join(f'{name} = {value}' for name, value in numbers.items())};",
            "",
            f"  mucc::skinny::Operand weights;{self.tensor_comment(self.weights)}",
            f"  mucc::skinny::Operand few;{self.tensor_comment(self.few)}",
            *factors,
            *(f"  {member}" for member in self.epilogue.members),
            "};",
        ]

    @property
    def group_factors(self) -> list[tuple[Memory, str]]:
        """Scales and zeros of narrow weights, each with its initializer."""
        found: list[tuple[Memory, str]] = []
        for value in self.op.scales if self.op.narrow is not None else ():
            memory, (row, group) = self.places.view(value, Shaped.of(value.type).dims)
            element = VIEW_TYPES[memory.type.dtype]
            found.append((memory, f"{{{memory.data(element)}, {row.stride}, {group.stride}}}"))
        return found

    def arguments(self) -> list[str]:
        """`run`, the launch."""
        count, stage = self.places.count, string_literal(self.op.stage.data)
        m, n = ("N", "M") if self.exchanged else ("M", "N")
        sizes = [(m, self.m), (n, self.n)]
        if self.epilogue.weights_first:
            sizes.reverse()
        named = [("few", *sizes[0]), ("many", *sizes[1]), ("k", "K", self.k)]
        if self.batch:
            named.append(("batch", "L", self.batch))
        checks = [
            f'mucc::gemm::extent(c, {stage}, "{name}", {count(dims)}, to.{member})'
            for member, name, dims in named
        ]
        factors = [value for _, value in self.group_factors]
        values = [_operand(self.weights), _operand(self.few), *factors, *self.epilogue.values]
        fills = self.epilogue.fills
        return [
            "int run(mucc::Call const& c, void*) {",
            *used_locals(self.places, *checks, *values, *fills),
            "  mucc::skinny::Extents to{1, 1, 1, 1};",
            "  if (" + " ||\n      ".join([*checks, *fills]) + ")\n    return 1;",
            "  Op const op{",
            *(f"      {v}," for v in values),
            "  };",
            f"  return mucc::skinny::launch(c, {stage}, codes, op, to);",
            "}",
        ]

    def texts(self, entry: str) -> Texts:
        """Return the C++ of the kernel in parts."""
        form = form_of(config_of(self.op))
        work = ["struct Work : Op {", *self.epilogue.finish, "};"]
        entries = [
            Entry(
                f"{entry}_{name}",
                "Work const op, mucc::skinny::Extents const extents, int splits",
                f"mucc::skinny::run<mucc::skinny::{access}>(op, extents, splits)",
                f"{32 * WARPS}, {form.blocks if access == 'kPieces' else 1}",
            )
            for name, access in _ACCESSES.items()
        ]
        data, launch = "\n".join(self.types()), "\n".join(self.arguments())
        return Texts(data, self.epilogue.bodies, "\n".join(work), entries, launch)

    def kernel(self, entry: str) -> list[str]:
        """Return the definitions of the kernel's namespace for output as one file."""
        texts = self.texts(entry)
        return [texts.device, "", texts.codes(None), "", texts.launch]


def _operand(matrix: Matrix) -> str:
    """Return a C++ initializer of a `mucc::skinny::Operand`."""
    return f"{{{matrix.memory.address}, {', '.join(map(str, matrix.strides))}}}"


def _bool(value: bool) -> str:
    return "true" if value else "false"
