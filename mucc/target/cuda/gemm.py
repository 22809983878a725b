"""Contraction kernels: CUTLASS's collectives with every choice written out."""

from __future__ import annotations

import hashlib
import textwrap
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr

from mucc.dialects.cutlass.ops import GemmOp
from mucc.dialects.mu.ops import Compute
from mucc.dialects.mu.schedule import (
    ClusterAttr,
    Mainloop,
    MainloopAttr,
    Raster,
    SchedulerAttr,
    SchedulerKind,
    TileAttr,
)
from mucc.dialects.mu.types import Dims, dtype_bytes
from mucc.target import get_target
from mucc.target.cuda.body import Body
from mucc.target.cuda.graph import Epilogue, Matrix, Problem, stride_type
from mucc.target.cuda.lean import LeanEpilogue, is_lean, warpgroups
from mucc.target.cuda.memory import CUTLASS_TYPES, ONE, ZERO, EmissionError, Places
from mucc.target.cuda.names import Namer, comment_text, string_literal, words
from mucc.target.cuda.pointwise import used_locals

_SCHEDULES = {
    Mainloop.COOPERATIVE: ("KernelTmaWarpSpecializedCooperative", "TmaWarpSpecializedCooperative"),
    Mainloop.PINGPONG: ("KernelTmaWarpSpecializedPingpong", "TmaWarpSpecialized"),
    Mainloop.WARPSPECIALIZED: ("KernelTmaWarpSpecialized", "TmaWarpSpecialized"),
}

_HEADERS = {
    Mainloop.COOPERATIVE: "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_cooperative.hpp",
    Mainloop.PINGPONG: "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_pingpong.hpp",
    Mainloop.WARPSPECIALIZED: "cutlass/gemm/kernel/gemm_universal.hpp",
}

_RASTERS = {Raster.ALONG_M: "kAlongM", Raster.ALONG_N: "kAlongN", Raster.HEURISTIC: "kHeuristic"}

# What the kernel's namespace defines besides the nodes of its epilogue.
_NAMES = words(
    """
    TileShape ClusterShape Tiles ElementA ElementB ElementC ElementD StrideA StrideB StrideC StrideD
    EpilogueSchedule Visitor CollectiveEpilogue CollectiveMainloop Kernel
    c p to arguments skeleton code stage offsets scratch describe run scratch_bytes
    """
)

# The type of the shared memory that an epilogue keeps though it stores no matrix.
_NO_MATRIX = "cutlass::bfloat16_t"


def kernel_header(op: GemmOp) -> str:
    """The CUTLASS header that defines the kernel of this mainloop."""
    return _HEADERS[_mainloop(op)]


def needs_scratch(op: GemmOp) -> bool:
    """Whether CUTLASS itself wants workspace: where several blocks share an output tile."""
    return _scheduler(op).kind.data != SchedulerKind.PERSISTENT


def _mainloop(op: GemmOp) -> Mainloop:
    if op.mainloop is None or op.mainloop.data not in _SCHEDULES:
        raise EmissionError(f"no kernel for mainloop {op.mainloop.data if op.mainloop else 'unset'}")
    return op.mainloop.data


def _scheduler(op: GemmOp) -> SchedulerAttr:
    if op.scheduler is None:
        raise EmissionError("a gemm without a scheduler: select-schedule has not run")
    return op.scheduler


def _shape(*sizes: int) -> str:
    return "cute::Shape<" + ", ".join(f"cute::Int<{s}>" for s in sizes) + ">"


ENTRY = "mucc_gemm"
"""What the kernel is called in a skeleton's code; in a program's it gets the program's name for it."""


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A contraction kernel without its pointwise work, as texts of C++ that no program's names are in.

    `device` compiles to PTX with a place for each body of pointwise work (`// mucc.body`), `host` to an
    object that defines `symbol`, a `mucc::gemm::Skeleton`.
    """

    symbol: str
    device: str
    host: str

    @staticmethod
    def of(header: str, types: str, arguments: str) -> Skeleton:
        """From the kernel's CUTLASS header, its types, and the function that fills in arguments."""
        types = f"namespace fusion = cutlass::epilogue::fusion;\n\n{types}"
        digest = hashlib.sha256(f"{header}\n{types}\n{arguments}".encode()).hexdigest()[:16]
        symbol = f"mucc_skeleton_{digest}"
        device = (
            f"#include <mucc/gemm.cuh>\n#include <{header}>\n\nnamespace mucc_skeleton {{\n\n{types}\n\n"
            f"}}  // namespace mucc_skeleton\n\nMUCC_GEMM_CODE({ENTRY}, mucc_skeleton::Kernel)\n"
        )
        host = (
            f"#include <mucc/gemm_launch.h>\n#include <{header}>\n\nnamespace mucc_skeleton {{\n\n{types}\n\n"
            f"{arguments}\n\n}}  // namespace mucc_skeleton\n\n"
            f'extern "C" mucc::gemm::Skeleton const {symbol};\n'
            f"mucc::gemm::Skeleton const {symbol} =\n"
            "    mucc::gemm::Host<mucc_skeleton::Kernel, mucc_skeleton::arguments>::skeleton;\n"
        )
        return Skeleton(symbol, device, host)


class Gemm:
    """The text of one contraction kernel: what shapes CUTLASS's types, and what one program does with it.

    With `canonical` the types are named and commented for no program in particular.
    """

    def __init__(self, op: GemmOp, places: Places, *, canonical: bool = False):
        self.op = op
        self.places = places
        self.canonical = canonical
        match op.tile, op.cluster, op.mainloop, op.stages:
            case TileAttr() as tile, ClusterAttr() as cluster, MainloopAttr(), IntegerAttr() as stages:
                self.tile, self.cluster, self.stages = tile, cluster, stages.value.data
            case _:
                raise EmissionError("a gemm without a schedule: select-schedule has not run")
        self.mainloop = _mainloop(op)
        self.scheduler = _scheduler(op)
        self.m, self.n, self.k, self.batch = op.shape.extents
        self.a = self._operand("a", self.m)
        self.b = self._operand("b", self.n)
        self.target = get_target(places.program.target.data)
        self.exchanged = self.target.exchanges_operands(
            op.compute.data.value, self.a.is_row_major, self.b.is_row_major
        )
        problem = Problem(places, self.batch, self.m, self.n, self.exchanged)
        if self.exchanged:
            self.a, self.b = self.b, self.a
            self.m, self.n = self.n, self.m
        self.namer = Namer([*places.dim_names.values(), *_NAMES])
        self.c = problem.matrix(op.source.source) if op.source is not None else None
        self.d = problem.matrix(op.destination.destination) if op.destination is not None else None
        element_d = CUTLASS_TYPES[self.d.memory.type.dtype] if self.d else "void"
        self.lean = is_lean(op, self.d, self.tile.sizes, self.mainloop)
        if self.lean:
            groups = warpgroups(self.mainloop)
            lean = LeanEpilogue(
                op, problem, self.namer, element_d, canonical, warpgroups=groups, tile=self.tile.sizes
            )
            self.epilogue = lean.build()
        else:
            self.epilogue = Epilogue(op, problem, self.namer, element_d, canonical).build()

    def _operand(self, which: str, outer: Dims) -> Matrix:
        """A as (M, K, L) or B as (N, K, L)."""
        k = self.k
        value = self.op.a if which == "a" else self.op.b
        inner: Dims = (*outer, *k) if which == "a" else (*k, *outer)
        memory, axes = self.places.view(value, (*self.batch, *inner))
        b = len(self.batch)
        first = len(outer) if which == "a" else len(k)
        halves = [axes[b : b + first], axes[b + first :]]
        extents: list[Dims] = [inner[:first], inner[first:]]
        strides = [self.places.collapse(memory.name, e, h) for e, h in zip(extents, halves, strict=True)]
        if which == "b":
            strides.reverse()
        batch = self.places.collapse(memory.name, self.batch, axes[:b]) if self.batch else ZERO
        if ONE not in strides:
            raise EmissionError(f"{memory.name} is contiguous along neither of its axes")
        return Matrix(memory, (strides[0], strides[1], batch))

    def _aligned(self, matrix: Matrix | None) -> int:
        """Elements in a granule of copies; a matrix that is not there counts as one of 16-bit elements."""
        size = dtype_bytes(matrix.memory.type.element_type) if matrix else 2
        return self.target.copy_granule // size

    @property
    def bodies(self) -> list[Body]:
        """The pointwise work of the epilogue."""
        return self.epilogue.bodies

    def skeleton(self) -> Skeleton:
        """All that needs CUTLASS, for any program that it fits."""
        assert self.canonical
        markers = [body.marker(i) for i, body in enumerate(self.bodies)]
        types = "\n".join([*(f"{m}\n" for m in markers), *self.types()])
        return Skeleton.of(kernel_header(self.op), types, "\n".join(self.arguments()))

    def kernel(self, entry: str) -> list[str]:
        """The definitions of the kernel's namespace where everything is one file; `entry` is its name."""
        return [
            *(f"{body.text}\n" for body in self.bodies),
            *self.types(),
            "",
            *self.arguments(),
            "",
            "constexpr auto skeleton = mucc::gemm::Host<Kernel, arguments>::skeleton;",
            f"MUCC_GEMM_CODE({entry}, Kernel)",
            f"mucc::Code code{{nullptr, nullptr, reinterpret_cast<void const*>({entry})}};",
            "",
            *self.launch("skeleton"),
        ]

    def launch(self, skeleton: str) -> list[str]:
        """What the program does with the kernel; `skeleton` is the C++ name of its skeleton."""
        return [*self._describe(), "", *self._run(skeleton)]

    def types(self) -> list[str]:
        """CUTLASS's types."""
        _, epilogue_schedule = _SCHEDULES[self.mainloop]
        dtype = self.a.memory.type.dtype
        element = CUTLASS_TYPES[dtype]
        element_c = CUTLASS_TYPES[self.c.memory.type.dtype] if self.c else "void"
        align_c = self._aligned(self.c)
        align_d = self._aligned(self.d)
        plain = stride_type((ZERO, ZERO, ZERO), 1).replace("cute::_0", "int64_t", 1)
        uses_tiles = any("Tiles" in line for line in self.epilogue.usings)
        tensor_core = "tf32" if self.op.compute.data is Compute.TF32 else self.op.compute.data.value
        lines = [
            f"using TileShape = {_shape(*self.tile.sizes)};",
            f"using ClusterShape = {_shape(*self.cluster.sizes, 1)};",
            f"using ElementA = {element};  // multiplied as {tensor_core}",
            f"using StrideA = {self.a.type};{self._tensor(self.a)}",
            f"using ElementB = {element};",
            f"using StrideB = {self.b.type};{self._tensor(self.b)}",
            f"using ElementC = {element_c};",
            f"using StrideC = {self.c.type if self.c else self.d.type if self.d else plain};",
            f"using ElementD = {self.epilogue.element_d};",
            f"using StrideD = {self.d.type if self.d else plain};",
        ]
        if self.lean:
            return [*lines, "", *self.epilogue.usings, *self._collectives(self.epilogue.root.type)]
        lines.append(f"using EpilogueSchedule = cutlass::epilogue::{epilogue_schedule};")
        if uses_tiles:
            tiles = f"TileShape, ElementC, {'ElementD' if self.d else _NO_MATRIX}, EpilogueSchedule"
            lines.append(f"using Tiles = mucc::gemm::Tiles<{tiles}>;")
        lines += ["", *self.epilogue.usings]
        if self.d is None:
            lines += [
                "// No matrix is stored as D, but CUTLASS wants a type for the epilogue's shared memory.",
                f"struct Visitor : {self.epilogue.root.type} {{",
                f"  using ElementAux = {_NO_MATRIX};",
                f"  using {self.epilogue.root.type}::{self.epilogue.root.type};",
                "};",
            ]
        else:
            lines.append(f"using Visitor = {self.epilogue.root.type};")
        lines.append("")
        built = [
            "cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, TileShape, ClusterShape",
            "cutlass::epilogue::collective::EpilogueTileAuto, float, float",
            f"ElementC, StrideC, {align_c}, ElementD, StrideD, {align_d}, EpilogueSchedule, Visitor",
        ]
        builder = "typename cutlass::epilogue::collective::CollectiveBuilder"
        return [*lines, *self._collectives(f"{builder}<{', '.join(built)}>::CollectiveOp")]

    def _collectives(self, epilogue: str) -> list[str]:
        """The kernel from its collectives."""
        kernel_schedule, _ = _SCHEDULES[self.mainloop]
        align = self._aligned(self.a)
        scheduler = "StreamKScheduler" if needs_scratch(self.op) else "PersistentScheduler"
        stage = "" if self.canonical else f"stage {self.op.stage.data} "
        too_much = f"{stage}needs more shared memory than a block has"
        return [
            "using CollectiveEpilogue =",
            *_wrap(f"{epilogue};"),
            "using CollectiveMainloop = typename cutlass::gemm::collective::CollectiveBuilder<",
            *_wrap(
                "cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, "
                f"ElementA, StrideA, {align}, ElementB, StrideB, {align}, float, TileShape, "
                f"ClusterShape, mucc::gemm::Stages<{self.stages}>, "
                f"cutlass::gemm::{kernel_schedule}>::CollectiveOp;"
            ),
            "using Kernel = cutlass::gemm::kernel::GemmUniversal<",
            "    cute::Shape<int, int, int, int>, CollectiveMainloop, CollectiveEpilogue,",
            f"    cutlass::gemm::{scheduler}>;",
            f"static_assert(sizeof(typename Kernel::SharedStorage) <= {self.target.smem_bytes},",
            f"              {string_literal(too_much)});",
        ]

    def _tensor(self, matrix: Matrix) -> str:
        return "" if self.canonical else comment_text(f"  // {matrix.memory.name}: {matrix.memory.type}")

    def arguments(self) -> list[str]:
        """From a problem to CUTLASS's arguments."""
        given = self.epilogue.root.arguments
        lines = ["mucc::gemm::begin_arguments<Kernel>(p, to);", *self.epilogue.locals]
        if given != "{}":
            lines.append(f"to.epilogue.thread = {given};")
        if self.mainloop is not Mainloop.WARPSPECIALIZED:
            lines.append("mucc::gemm::set_raster<Kernel>(p, to);")
        if needs_scratch(self.op):
            lines.append("mucc::gemm::set_splits<Kernel>(p, to);")
        return [
            "// What CUTLASS makes of a problem.",
            "void arguments(mucc::gemm::Problem const& p, Kernel::Arguments& to) {",
            *(f"  {line}" for line in lines),
            "}",
        ]

    def _describe(self) -> list[str]:
        """What a call says about the problem."""
        stage = string_literal(self.op.stage.data)
        rows, columns = ("N", "M") if self.exchanged else ("M", "N")
        sizes = {
            "m": (rows, self.places.count(self.m)),
            "n": (columns, self.places.count(self.n)),
            "k": ("K", self.places.count(self.k)),
        }
        if self.batch:
            sizes["batch"] = ("L", self.places.count(self.batch))
        checks = [f'mucc::gemm::extent(c, {stage}, "{name}", {x}, p.{v})' for v, (name, x) in sizes.items()]
        body = [
            "  if (" + " ||\n      ".join(checks) + ")\n    return 1;",
            *(["  p.batched = true;"] if self.batch else []),
            *(f"  p.{x} = {m.value};" for x, m in zip("abcd", self._matrices(), strict=True) if m),
            *(f"  p.extra[{i}] = {value};" for i, value in enumerate(self.epilogue.operands)),
            *self._schedule(),
            "  return 0;",
            "}",
        ]
        return [
            "// What a call says about the problem.",
            "int describe(mucc::Call const& c, mucc::gemm::Problem& p) {",
            *used_locals(self.places, *body),
            *body,
        ]

    def _matrices(self) -> tuple[Matrix | None, ...]:
        return (self.a, self.b, self.c, self.d)

    def _schedule(self) -> list[str]:
        if self.mainloop is Mainloop.WARPSPECIALIZED:
            return []
        scheduler, raster = self.scheduler, Raster(self.scheduler.raster.data)
        lines = [f"  p.swizzle = {scheduler.swizzle.data};"]
        if raster is not Raster.HEURISTIC:
            lines.append(f"  p.raster = mucc::gemm::Raster::{_RASTERS[raster]};")
        if needs_scratch(self.op):
            lines.append(f"  p.splits = {scheduler.splits.data};")
            if scheduler.kind.data == SchedulerKind.SPLIT_K:
                lines.append("  p.split_k = true;")
        return lines

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
        if needs_scratch(self.op):
            lines += [
                "",
                "int64_t scratch_bytes(mucc::Call const& c) {",
                f"  return {skeleton}.scratch(c, stage);",
                "}",
            ]
        return lines

    def summary(self) -> str:
        """One line about the choices that were made."""
        count = self.places.count
        shape = " x ".join(str(count(d)).replace(" ", "") for d in (self.m, self.n, self.k))
        shape += " (of the transposed result)" * self.exchanged
        batch = f", {str(count(self.batch)).replace(' ', '')} times" if self.batch else ""
        return (
            f"{self.op.compute.data.value} gemm {shape}{batch}: tile {self.tile}, cluster {self.cluster}, "
            f"{self.mainloop.value}, {self.stages} stages, {self.scheduler}"
        )


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, 116, initial_indent="    ", subsequent_indent="    ", break_long_words=False)
