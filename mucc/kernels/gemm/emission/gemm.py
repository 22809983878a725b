"""Contraction kernels: what every family of kernels has in common.

A family is a way to write kernels for CUTLASS (or without it): `families` says which one a mainloop belongs
to. What programs say about a call (`mucc::gemm::Problem`) and how they run a kernel
(`mucc::gemm::Skeleton`) is the same for all, so a family decides on types and arguments only.
"""

from __future__ import annotations

import hashlib
import textwrap
from abc import abstractmethod

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from mucc.codegen.body import Body
from mucc.codegen.kernel_code import ENTRY, Headers, Skeleton, SkeletonCode
from mucc.codegen.memory import ONE, ZERO, EmissionError, Memory, Places, Product
from mucc.codegen.names import Namer, comment_text, string_literal, words
from mucc.codegen.texts import used_locals
from mucc.dialects.mu.schedule_attributes import ClusterAttr, Mainloop, MainloopAttr, SchedulerAttr, TileAttr
from mucc.dialects.mu.types import Dims, Shaped, TensorType, dtype_bits
from mucc.kernels.gemm.description import problem_of
from mucc.kernels.gemm.emission.graph import Epilogue
from mucc.kernels.gemm.emission.problem import Matrix, Problem
from mucc.kernels.gemm.granules import unit_axis
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.scheduling import gemm_target

SKELETON = "mucc::gemm::Skeleton"
"""The C++ type through which a program launches a kernel (mucc/problem.h)."""

# What the kernel's namespace defines besides the nodes of its epilogue.
_NAMES = words(
    """
    TileShape ClusterShape Tiles ElementA ElementB ElementC ElementD StrideA StrideB StrideC StrideD
    EpilogueSchedule Visitor CollectiveEpilogue CollectiveMainloop Kernel
    c p to arguments skeleton code stage offsets scratch describe run scratch_bytes
    """
)


def scheduler_of(op: GemmOp) -> SchedulerAttr:
    """Return the scheduler of a gemm. Raises EmissionError if none is chosen."""
    if op.scheduler is None:
        raise EmissionError("a gemm without a scheduler: select-schedule has not run")
    return op.scheduler


def shape_type(*sizes: int) -> str:
    """Return a static cute shape."""
    return "cute::Shape<" + ", ".join(f"cute::Int<{s}>" for s in sizes) + ">"


def cutlass_headers(kernel: str, more: tuple[str, ...] = ()) -> Headers:
    """Return the headers of a kernel of CUTLASS's `GemmUniversal`; `kernel` declares its mainloop."""
    return Headers(
        kernel, device="mucc/gemm.cuh", host="mucc/gemm_launch.h", driver="mucc::gemm::Host", more=more
    )


def skeleton_of(headers: Headers, types: str, arguments: str) -> Skeleton:
    """From the kernel's headers, its types, and the function that fills in arguments."""
    types = f"namespace fusion = cutlass::epilogue::fusion;\n\n{types}" if "fusion::" in types else types
    digest = hashlib.sha256(f"{headers}\n{types}\n{arguments}".encode()).hexdigest()[:16]
    symbol = f"mucc_skeleton_{digest}"
    device = (
        f"{headers.lines(headers.device)}\n"
        f"namespace mucc_skeleton {{\n\n{types}\n\n"
        f"}}  // namespace mucc_skeleton\n\nMUCC_GEMM_CODE({ENTRY}, mucc_skeleton::Kernel)\n"
    )
    # Nameless, since the types of another skeleton may have the same names.
    host = (
        f"{headers.lines(headers.host)}\n"
        f"namespace mucc_skeleton {{\nnamespace {{\n\n{types}\n\n"
        f"{arguments}\n\n}}  // namespace\n}}  // namespace mucc_skeleton\n\n"
        f'extern "C" {SKELETON} const {symbol};\n'
        f"{SKELETON} const {symbol} =\n"
        f"    {headers.driver}<mucc_skeleton::Kernel, mucc_skeleton::arguments>::skeleton;\n"
    )
    return Skeleton(symbol, SKELETON, device, host)


class Gemm(SkeletonCode):
    """The text of one contraction kernel: what shapes CUTLASS's types, and what one program does with it.

    With `canonical` the types are named and commented for no program in particular.
    """

    def __init__(self, op: GemmOp, places: Places, *, canonical: bool = False):
        self.op = op
        self.places = places
        self.canonical = canonical
        match op.tile, op.cluster, op.mainloop, op.stages:
            case (
                TileAttr() as tile,
                ClusterAttr() as cluster,
                MainloopAttr() as mainloop,
                IntegerAttr() as stages,
            ):
                self.tile, self.cluster, self.stages = tile, cluster, stages.value.data
            case _:
                raise EmissionError("a gemm without a schedule: select-schedule has not run")
        self.mainloop = self.kernel_mainloop(mainloop.data)
        self.scheduler = scheduler_of(op)
        self.m, self.n, self.k, self.batch = op.shape.extents
        self.a = self._operand("a", self.m, self.batch)
        self.b = self._operand("b", self.n, op.groups or self.batch)
        self.b2 = self._operand("b2", self.n, self.batch) if op.b2 is not None else None
        self.target = gemm_target(places.program.target.data)
        self.exchanged = op.is_exchanged
        self.problem = Problem(places, self.batch, self.m, self.n, self.exchanged)
        if self.exchanged:
            self.a, self.b = self.b, self.a
            self.m, self.n = self.n, self.m
        self.namer = Namer([*places.dim_names.values(), *_NAMES])
        self.c = self.problem.matrix(op.source.source) if op.source is not None else None
        self.d = self.problem.matrix(op.destination.destination) if op.destination is not None else None
        self.epilogue = self.build_epilogue()

    # What a family decides

    @property
    @abstractmethod
    def headers(self) -> Headers:
        """The headers that the kernel's text needs."""

    @property
    def device_header(self) -> str:
        return self.headers.device

    @property
    def launch_headers(self) -> tuple[str, ...]:
        return ("mucc/problem.h",)

    @abstractmethod
    def build_epilogue(self) -> Epilogue:
        """Return the epilogue, written out. All other members are set by then."""

    @abstractmethod
    def types(self) -> list[str]:
        """Return the kernel's types in C++; the last of them is `Kernel`."""

    @abstractmethod
    def arguments(self) -> list[str]:
        """`void arguments(Problem const&, Kernel::Arguments&)`: from a problem to the kernel's arguments."""

    def kernel_mainloop(self, mainloop: Mainloop) -> Mainloop:
        """Return the mainloop under which CUTLASS knows the kernel."""
        return mainloop

    def schedule(self) -> list[str]:
        """Return the assignments to members of a problem `p` that `describe` makes for the scheduler."""
        return []

    # What all have in common

    def _operand(self, which: str, outer: Dims, batches: Dims) -> Matrix:
        """Return A as a matrix over (M, K, L), or B as one over (N, K, L)."""
        k = self.k
        value = self.op.read[("a", "b", "b2").index(which)]
        if self.op.parts > 1:
            return self._parts(value, outer, batches, 0 if which == "a" else len(self.m) - 1)
        inner: Dims = (*outer, *k) if which == "a" else (*k, *outer)
        b, folded = len(batches), 0 if which == "a" else len(self.m) - 1
        memory, axes = self.places.view(value, (*batches, *(1,) * folded, *inner))
        del axes[b : b + folded]  # rows of A that B has no axes for
        first = len(outer) if which == "a" else len(k)
        halves = [axes[b : b + first], axes[b + first :]]
        extents: list[Dims] = [inner[:first], inner[first:]]
        strides = [self.places.collapse(memory.name, e, h) for e, h in zip(extents, halves, strict=True)]
        if which != "a":
            strides.reverse()
        batch = self.places.collapse(memory.name, batches, axes[:b]) if batches else ZERO
        if ONE not in strides:
            raise EmissionError(f"{memory.name} is contiguous along neither of its axes")
        if strides[1].is_one and (strides[0].is_zero or strides[0].is_one):
            # Of one row along K: never used, but TMA looks at it.
            padding = memory.type.layout.padding
            strides[0] = self.places.padded(k[0], padding) if len(k) == 1 else self.places.count(k)
        matrix = Matrix(memory, (strides[0], strides[1], batch))
        if matrix.is_row_major != (unit_axis(self.op, value) == self._k_axis(value, which)):
            raise EmissionError(
                f"{memory.name} is not contiguous along the axis that its schedule is chosen for"
            )
        return matrix

    @staticmethod
    def _k_axis(value: SSAValue, which: str) -> int:
        """Return the axis of an operand that is K."""
        return len(Shaped.of(value.type).dims) - (1 if which == "a" else 2)

    def _parts(self, value: SSAValue, outer: Dims, batches: Dims, folded: int) -> Matrix:
        """Return an operand whose rows hold several parts, one after the other along K."""
        memory, axes = self.places.view(value, (*batches, *(1,) * folded, *outer, self.op.parts, *self.k))
        b = len(batches)
        del axes[b : b + folded]
        rows = self.places.collapse(memory.name, outer, axes[b : b + len(outer)])
        batch = self.places.collapse(memory.name, batches, axes[:b]) if batches else ZERO
        return Matrix(memory, (self.depth if rows.is_zero else rows, ONE, batch))

    @property
    def depth(self) -> Product:
        """K as the kernel counts it: with all parts of its operands, and what pads them."""
        if self.op.parts == 1:
            return self.places.count(self.k)
        memory = self.places.find(self.op.read[0])
        assert isinstance(memory, Memory) and len(self.k) == 1
        return self.places.padded(self.k[0], memory.type.layout.padding) * Product(self.op.parts)

    def aligned(self, matrix: Matrix | None) -> int:
        """Elements in a granule of copies; a matrix that is not there counts as one of 16-bit elements."""
        bits = dtype_bits(matrix.memory.type.element_type) if matrix else 16
        return 8 * self.target.copy_granule // bits

    @property
    def bodies(self) -> list[Body]:
        """The pointwise work of the epilogue."""
        return self.epilogue.bodies

    def skeleton(self) -> Skeleton:
        """All that needs CUTLASS, for any program that it fits."""
        assert self.canonical
        markers = [body.marker(i, "mucc::gemm::Marker") for i, body in enumerate(self.bodies)]
        types = "\n".join([*(f"{m}\n" for m in markers), *self.types()])
        return skeleton_of(self.headers, types, "\n".join(self.arguments()))

    def kernel(self, entry: str) -> list[str]:
        """Return the definitions of the kernel's namespace for output as one file; `entry` is the kernel's
        name.
        """
        return [
            *(f"{body.text}\n" for body in self.bodies),
            *self.types(),
            "",
            *self.arguments(),
            "",
            f"constexpr auto skeleton = {self.headers.driver}<Kernel, arguments>::skeleton;",
            f"MUCC_GEMM_CODE({entry}, Kernel)",
            f"mucc::Code code{{nullptr, nullptr, reinterpret_cast<void const*>({entry})}};",
            "",
            *self.launch("skeleton"),
        ]

    def launch(self, skeleton: str) -> list[str]:
        """Return the C++ lines that describe a call to the kernel and launch it, through this `skeleton`."""
        return [*self._describe(), "", *self._run(skeleton)]

    def tensor_comment(self, matrix: Matrix) -> str:
        """Which tensor of the program a matrix is, as a comment."""
        return "" if self.canonical else comment_text(f"  // {matrix.memory.name}: {matrix.memory.type}")

    def _describe(self) -> list[str]:
        """Return the C++ function that describes a call's problem."""
        stage = string_literal(self.op.stage.data)
        rows, columns = ("N", "M") if self.exchanged else ("M", "N")
        sizes = {
            "m": (rows, self.places.count(self.m)),
            "n": (columns, self.places.count(self.n)),
            "k": ("K", self.depth),
        }
        if batches := self.op.groups or self.batch:
            sizes["batch"] = ("L", self.places.count(batches))
        checks = [f'mucc::gemm::extent(c, {stage}, "{name}", {x}, p.{v})' for v, (name, x) in sizes.items()]
        body = [
            "  if (" + " ||\n      ".join(checks) + ")\n    return 1;",
            *(["  p.batched = true;"] if batches else []),
            *(["  p.padded = true;"] if self._has_padding else []),
            *(f"  p.{name} = {matrix.value};" for name, matrix in self._matrices().items() if matrix),
            *(f"  p.extra[{i}] = {value};" for i, value in enumerate(self.epilogue.operands)),
            *self.schedule(),
            "  return 0;",
            "}",
        ]
        return [
            "// What a call says about the problem.",
            "int describe(mucc::Call const& c, mucc::gemm::Problem& p) {",
            *used_locals(self.places, *body),
            *body,
        ]

    @property
    def _has_padding(self) -> bool:
        """Whether rows of a matrix may be shorter than what they are padded to."""
        types = [value.type for value, _ in self.op.matrices]
        padded = any(isinstance(type, TensorType) and type.layout.padding > 1 for type in types)
        return padded and (self.op.parts == 1 or not problem_of(self.op).wide)

    def _matrices(self) -> dict[str, Matrix | None]:
        return {"a": self.a, "b": self.b, "b2": self.b2, "c": self.c, "d": self.d}

    def _run(self, skeleton: str) -> list[str]:
        stage = string_literal(self.op.stage.data)
        lines = [
            f"constexpr mucc::gemm::Stage stage{{{stage}, &{skeleton}, &code, describe}};",
            "",
            "int run(mucc::Call const& c, void* scratch) {",
        ]
        if self.epilogue.fills:
            lines += used_locals(self.places, *self.epilogue.fills)
            lines.append("  if (" + " ||\n      ".join(self.epilogue.fills) + ")\n    return 1;")
        lines += [f"  return {skeleton}.run(c, stage, scratch);", "}"]
        if self.op.is_listed:
            lines += ["", *self._run_list(skeleton)]
        if self.op.needs_scratch:
            lines += [
                "",
                "int64_t scratch_bytes(mucc::Call const& c) {",
                f"  return {skeleton}.scratch(c, stage);",
                "}",
            ]
        return lines

    def _run_list(self, skeleton: str) -> list[str]:
        """Return the C++ function that launches the kernel for a list of problems."""
        filled: list[str] = []
        lines = ["int run_list(mucc::Call const* calls, int count) {"]
        if fills := self.epilogue.fills:
            filled = ["int fill(mucc::Call const& c) {", *used_locals(self.places, *fills)]
            filled += ["  return " + " ||\n         ".join(fills) + ";", "}", ""]
            lines += ["  for (int i = 0; i < count; ++i)", "    if (fill(calls[i])) return 1;"]
        return [*filled, *lines, f"  return {skeleton}.run_list(calls, count, stage);", "}"]

    def summary(self) -> str:
        """One line about the choices that were made."""
        count = self.places.count
        shape = " x ".join(str(count(d)).replace(" ", "") for d in (self.m, self.n, self.k))
        shape += " (of the transposed result)" * self.exchanged
        batch = f", {str(count(self.batch)).replace(' ', '')} times" if self.batch else ""
        shape += " of a pair" * self.op.is_pair
        if self.op.is_grouped:
            batch = f", rows in {str(count(self.op.groups)).replace(' ', '')} groups"
        assert self.op.mainloop is not None
        return (
            f"{self.op.compute.data.value} gemm {shape}{batch}: tile {self.tile}, cluster {self.cluster}, "
            f"{self.op.mainloop.data.value}, {self.stages} stages, {self.scheduler}"
        )


def wrapped(text: str) -> list[str]:
    """C++ in indented lines."""
    return textwrap.wrap(text, 116, initial_indent="    ", subsequent_indent="    ", break_long_words=False)
