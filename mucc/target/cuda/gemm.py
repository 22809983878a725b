"""Contraction kernels: CUTLASS's collectives with every choice written out."""

from __future__ import annotations

import textwrap

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
from mucc.target.cuda.graph import Epilogue, Matrix, Problem, stride_type
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

_RASTERS = {Raster.ALONG_M: "AlongM", Raster.ALONG_N: "AlongN", Raster.HEURISTIC: "Heuristic"}

# What the kernel's namespace defines besides the nodes of its epilogue.
_NAMES = words(
    """
    TileShape ClusterShape Tiles ElementA ElementB ElementC ElementD StrideA StrideB StrideC StrideD
    EpilogueSchedule Visitor CollectiveEpilogue CollectiveMainloop Kernel
    c m n k l arguments memo offsets scratch describe run scratch_bytes
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


class Gemm:
    """The text of one contraction kernel."""

    def __init__(self, op: GemmOp, places: Places):
        self.op = op
        self.places = places
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
        self.epilogue = Epilogue(op, problem, self.namer, element_d).build()

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

    def kernel(self) -> list[str]:
        """The definitions of the kernel's namespace."""
        return [
            *(f"{text}\n" for text in self.epilogue.bodies),
            *self._types(),
            "",
            *self._describe(),
            "",
            *self._run(),
        ]

    def _types(self) -> list[str]:
        kernel_schedule, epilogue_schedule = _SCHEDULES[self.mainloop]
        dtype = self.a.memory.type.dtype
        element = CUTLASS_TYPES[dtype]
        align = self._aligned(self.a)
        element_c = CUTLASS_TYPES[self.c.memory.type.dtype] if self.c else "void"
        align_c = self._aligned(self.c)
        align_d = self._aligned(self.d)
        plain = stride_type((ZERO, ZERO, ZERO), 1).replace("cute::_0", "int64_t", 1)
        uses_tiles = any("Tiles" in line for line in self.epilogue.usings)
        tensor_core = "tf32" if self.op.compute.data is Compute.TF32 else self.op.compute.data.value
        scheduler = "StreamKScheduler" if needs_scratch(self.op) else "PersistentScheduler"
        too_much = f"stage {self.op.stage.data} needs more shared memory than a block has"
        common = "cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp"
        lines = [
            f"using TileShape = {_shape(*self.tile.sizes)};",
            f"using ClusterShape = {_shape(*self.cluster.sizes, 1)};",
            f"using ElementA = {element};  // multiplied as {tensor_core}",
            f"using StrideA = {self.a.type};  // {_tensor(self.a)}",
            f"using ElementB = {element};",
            f"using StrideB = {self.b.type};  // {_tensor(self.b)}",
            f"using ElementC = {element_c};",
            f"using StrideC = {self.c.type if self.c else self.d.type if self.d else plain};",
            f"using ElementD = {self.epilogue.element_d};",
            f"using StrideD = {self.d.type if self.d else plain};",
            f"using EpilogueSchedule = cutlass::epilogue::{epilogue_schedule};",
        ]
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
        lines += [
            "",
            "using CollectiveEpilogue = typename cutlass::epilogue::collective::CollectiveBuilder<",
            *_wrap(
                f"{common}, TileShape, ClusterShape, cutlass::epilogue::collective::EpilogueTileAuto, "
                f"float, float, ElementC, StrideC, {align_c}, ElementD, StrideD, {align_d}, "
                "EpilogueSchedule, Visitor>::CollectiveOp;"
            ),
            "using CollectiveMainloop = typename cutlass::gemm::collective::CollectiveBuilder<",
            *_wrap(
                f"{common}, ElementA, StrideA, {align}, ElementB, StrideB, {align}, float, TileShape, "
                f"ClusterShape, mucc::gemm::Stages<{self.stages}>, "
                f"cutlass::gemm::{kernel_schedule}>::CollectiveOp;"
            ),
            "using Kernel = cutlass::gemm::kernel::GemmUniversal<",
            "    cute::Shape<int, int, int, int>, CollectiveMainloop, CollectiveEpilogue,",
            f"    cutlass::gemm::{scheduler}>;",
            f"static_assert(sizeof(typename Kernel::SharedStorage) <= {self.target.smem_bytes},",
            f"              {string_literal(too_much)});",
        ]
        return lines

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
            sizes["l"] = ("L", self.places.count(self.batch))
        checks = [f'mucc::gemm::extent(c, {stage}, "{name}", {p}, {v})' for v, (name, p) in sizes.items()]
        body = [
            f"  int {', '.join(f'{v} = 0' for v in sizes)};",
            "  if (" + " ||\n      ".join(checks) + ")\n    return 1;",
            f"  arguments.mode = cutlass::gemm::GemmUniversalMode::{'kBatched' if self.batch else 'kGemm'};",
            f"  arguments.problem_shape = {{m, n, k, {'l' if self.batch else '1'}}};",
            f"  arguments.mainloop.ptr_A = {self.a.memory.data('ElementA')};",
            f"  arguments.mainloop.dA = {self.a.value};",
            f"  arguments.mainloop.ptr_B = {self.b.memory.data('ElementB')};",
            f"  arguments.mainloop.dB = {self.b.value};",
            *(f"  {line}" for line in self.epilogue.locals),
            *self._thread(),
            "  arguments.epilogue.ptr_C = "
            + (f"{self.c.memory.data('ElementC')};" if self.c else "nullptr;"),
            *([f"  arguments.epilogue.dC = {self.c.value};"] if self.c else []),
            "  arguments.epilogue.ptr_D = "
            + (f"{self.d.memory.data('ElementD')};" if self.d else "nullptr;"),
            *([f"  arguments.epilogue.dD = {self.d.value};"] if self.d else []),
            *self._schedule(),
            "  return mucc::gemm::hardware<Kernel>(c, arguments.hw_info);",
            "}",
        ]
        return [
            "// What a call says about the problem, as CUTLASS takes it.",
            "int describe(mucc::Call const& c, Kernel::Arguments& arguments) {",
            *used_locals(self.places, *body),
            *body,
        ]

    def _thread(self) -> list[str]:
        given = self.epilogue.root.arguments
        return [] if given == "{}" else [f"  arguments.epilogue.thread = {given};"]

    def _schedule(self) -> list[str]:
        if self.mainloop is Mainloop.WARPSPECIALIZED:
            return []
        scheduler, raster = self.scheduler, Raster(self.scheduler.raster.data)
        lines = [f"  arguments.scheduler.max_swizzle_size = {scheduler.swizzle.data};"]
        if raster is not Raster.HEURISTIC:
            lines.append(
                "  arguments.scheduler.raster_order = "
                f"Kernel::TileScheduler::RasterOrderOptions::{_RASTERS[raster]};"
            )
        if needs_scratch(self.op):
            mode = "SplitK" if scheduler.kind.data == SchedulerKind.SPLIT_K else "Heuristic"
            lines += [
                f"  arguments.scheduler.splits = {scheduler.splits.data};",
                "  arguments.scheduler.decomposition_mode = "
                f"Kernel::TileScheduler::DecompositionMode::{mode};",
            ]
        return lines

    def _run(self) -> list[str]:
        stage = string_literal(self.op.stage.data)
        lines = ["int run(mucc::Call const& c, void* scratch) {"]
        if self.epilogue.fills:
            lines += used_locals(self.places, *self.epilogue.fills)
            lines.append("  if (" + " ||\n      ".join(self.epilogue.fills) + ")\n    return 1;")
        lines += [
            "  static thread_local mucc::Memo<mucc::gemm::Prepared<Kernel>> memo;",
            f"  return mucc::gemm::launch<Kernel>(c, {stage}, memo, scratch, describe);",
            "}",
        ]
        if needs_scratch(self.op):
            lines += [
                "",
                "int64_t scratch_bytes(mucc::Call const& c) {",
                "  return mucc::gemm::scratch<Kernel>(c, describe);",
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


def _tensor(matrix: Matrix) -> str:
    return comment_text(f"{matrix.memory.name}: {matrix.memory.type}")
