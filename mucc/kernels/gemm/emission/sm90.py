"""Contraction kernels for Hopper: CUTLASS 3.x collectives with every choice written out."""

from __future__ import annotations

from dataclasses import replace

from mucc.codegen.kernel_code import Headers
from mucc.codegen.memory import CUTLASS_TYPES, ZERO, EmissionError, Memory
from mucc.codegen.names import string_literal
from mucc.dialects.cutlass.views import view_of
from mucc.dialects.mu.ops.contraction import Compute
from mucc.dialects.mu.scale_rules import BLOCK
from mucc.dialects.mu.schedule_attributes import Mainloop, Raster, SchedulerKind
from mucc.kernels.gemm.description import config_of
from mucc.kernels.gemm.emission.gemm import Gemm, cutlass_headers, shape_type, wrapped
from mucc.kernels.gemm.emission.graph import Epilogue
from mucc.kernels.gemm.emission.lean import LeanEpilogue, is_lean, warpgroups
from mucc.kernels.gemm.emission.problem import Matrix, stride_parts, stride_type
from mucc.kernels.gemm.scheduling.sm90_memory import stage_bytes
from mucc.kernels.gemm.scheduling.sm90_rules import PLAIN_COLUMNS

_SCHEDULES = {
    Mainloop.COOPERATIVE: ("KernelTmaWarpSpecializedCooperative", "TmaWarpSpecializedCooperative"),
    Mainloop.PINGPONG: ("KernelTmaWarpSpecializedPingpong", "TmaWarpSpecialized"),
    Mainloop.WARPSPECIALIZED: ("KernelTmaWarpSpecialized", "TmaWarpSpecialized"),
}

HEADERS = {
    Mainloop.COOPERATIVE: "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_cooperative.hpp",
    Mainloop.PINGPONG: "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_pingpong.hpp",
    Mainloop.WARPSPECIALIZED: "cutlass/gemm/kernel/gemm_universal.hpp",
}

# The mainloop that adds up sums of 8-bit floats in f32.
_PROMOTING = "cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized_fp8.hpp"

# The one that scales them too.
_SCALING = (
    "cutlass/gemm/collective/fp8_accumulation.hpp",
    "cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized_fp8_blockwise_scaling.hpp",
)

# CUTLASS's wgmma instructions of every number of columns.
_ALL_COLUMNS = "CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED"

_RASTERS = {Raster.ALONG_M: "kAlongM", Raster.ALONG_N: "kAlongN", Raster.HEURISTIC: "kHeuristic"}

# The type of the shared memory that an epilogue keeps though it stores no matrix.
NO_MATRIX = "cutlass::bfloat16_t"


class Sm90Gemm(Gemm):
    """Operands by TMA, products by wgmma, an epilogue of visitors or mucc's own."""

    operator_class = "OpClassTensorOp"
    """What CUTLASS calls the kind of instruction that multiplies."""

    @property
    def headers(self) -> Headers:
        more: tuple[str, ...] = ()
        if self.op.blocks:
            more = _SCALING
        elif self.op.parts > 1:
            more = ("mucc/promoted.cuh",)
        elif self.op.compute.data in (Compute.E4M3, Compute.E5M2) and self.op.acc is None:
            more = (_PROMOTING,)
        headers = cutlass_headers(HEADERS[self.mainloop], more)
        if self.tile.sizes[1] * (2 if self.op.is_pair else 1) not in PLAIN_COLUMNS:
            headers = replace(headers, defines=(_ALL_COLUMNS,))
        return self.launched(headers, "CUTLASS_ENABLE_GDC_FOR_SM90")

    def launched(self, headers: Headers, waiting: str) -> Headers:
        """Headers of a kernel that may have to start early: the macro `waiting` makes CUTLASS's wait."""
        if not self.op.is_dependent:
            return headers
        return replace(headers, driver="mucc::gemm::DependentHost", defines=(*headers.defines, waiting))

    def build_epilogue(self) -> Epilogue:
        epilogue = self._built_epilogue()
        values = self.op.scales[::-1] if self.exchanged else self.op.scales
        found = [self.places.find(view_of(value).base) for value in values]
        self.scales = [epilogue.operand(f"{{{m.address}}}") for m in found if isinstance(m, Memory)]
        return epilogue

    def _built_epilogue(self) -> Epilogue:
        if is_lean(self.op, self.d, self.tile.sizes, self.mainloop):
            if self.op.is_pair or self.op.ranges or self.op.group_columns:
                self.c = None  # read by the epilogue, as any other matrix is
            return self.lean_epilogue(LeanEpilogue)
        if self.op.is_pair:
            raise EmissionError("a pair with a tile that mucc's epilogue does not take")
        self.lean = False
        return Epilogue(self.op, self.problem, self.namer, self._element_d, self.canonical).build()

    def lean_epilogue(self, kind: type[LeanEpilogue]) -> LeanEpilogue:
        """mucc's own epilogue, written out."""
        self.lean = True
        return kind(
            self.op,
            self.problem,
            self.namer,
            self._element_d,
            self.canonical,
            warpgroups=warpgroups(self.mainloop),
            tile=self.tile.sizes,
        ).build()

    @property
    def _element_d(self) -> str:
        return CUTLASS_TYPES[self.d.memory.type.dtype] if self.d else "void"

    def operand_types(self) -> list[str]:
        """Return the types of the matrices."""
        element_c = CUTLASS_TYPES[self.c.memory.type.dtype] if self.c else "void"
        plain = stride_type((ZERO, ZERO, ZERO), 1).replace("cute::_0", "int64_t", 1)
        return [
            f"using TileShape = {self._tile_shape()};",
            f"using ClusterShape = {shape_type(*self.cluster.sizes, 1)};",
            f"using ElementA = {self.element(self.a)};  // multiplied as {self.multiplied(self.a)}",
            f"using StrideA = {self.a.type};{self.tensor_comment(self.a)}",
            f"using ElementB = {self.element(self.b)};",
            f"using StrideB = {self._stride_b()};{self.tensor_comment(self.b)}",
            f"using ElementC = {element_c};",
            f"using StrideC = {self.c.type if self.c else self.d.type if self.d else plain};",
            f"using ElementD = {self.epilogue.element_d};",
            f"using StrideD = {self.d.type if self.d else plain};",
        ]

    @property
    def uses_tiles(self) -> bool:
        """Whether nodes of the epilogue want to know how it cuts its tile up."""
        return any("Tiles" in line for line in self.epilogue.usings)

    def visitor(self) -> list[str]:
        """Return the type of the epilogue's visitor, with the types of its nodes."""
        lines = ["", *self.epilogue.usings]
        root = self.epilogue.root.type
        if self.accumulator != "float":
            store = "" if self.d else f", {NO_MATRIX}"
            lines.append(f"using Visitor = mucc::gemm::InFloats<{root}{store}>;")
        elif self.d is None:
            lines += [
                "// No matrix is stored as D, but CUTLASS wants a type for the epilogue's shared memory.",
                f"struct Visitor : {root} {{",
                f"  using ElementAux = {NO_MATRIX};",
                f"  using {root}::{root};",
                "};",
            ]
        else:
            lines.append(f"using Visitor = {root};")
        return [*lines, ""]

    @property
    def epilogue_tile(self) -> str:
        """The piece of a tile that the epilogue works on, or that CUTLASS is to choose it."""
        if self.op.epilogue is None:
            return "cutlass::epilogue::collective::EpilogueTileAuto"
        return shape_type(*self.op.epilogue.sizes)

    def built_epilogue(self, arch: str, tile: str = "TileShape", visitor: str = "Visitor") -> str:
        """Return the type of CUTLASS's epilogue, by its builder."""
        built = [
            f"cutlass::arch::{arch}, cutlass::arch::OpClassTensorOp, {tile}, ClusterShape",
            f"{self.epilogue_tile}, {self.accumulator}, float",
            f"ElementC, StrideC, {self.aligned(self.c)}, ElementD, StrideD, {self.aligned(self.d)}",
            f"EpilogueSchedule, {visitor}",
        ]
        builder = "typename cutlass::epilogue::collective::CollectiveBuilder"
        return f"{builder}<{', '.join(built)}>::CollectiveOp"

    def types(self) -> list[str]:
        """CUTLASS's types."""
        lines = self.operand_types()
        if self.lean:
            return [*lines, "", *self.epilogue.usings, *self._collectives(self.epilogue.root.type)]
        _, epilogue_schedule = _SCHEDULES[self.mainloop]
        lines.append(f"using EpilogueSchedule = cutlass::epilogue::{epilogue_schedule};")
        if self.uses_tiles:
            element_d = "ElementD" if self.d else NO_MATRIX
            tiles = f"TileShape, ElementC, {element_d}, EpilogueSchedule, {self.epilogue_tile}"
            lines.append(f"using Tiles = mucc::gemm::Tiles<{tiles}>;")
        return [*lines, *self.visitor(), *self._collectives(self.built_epilogue("Sm90"))]

    def _tile_shape(self) -> str:
        """Return the tile's shape; of a pair, its columns are (N, 2)."""
        if not self.op.is_pair:
            return shape_type(*self.tile.sizes)
        m, n, k = (f"cute::Int<{size}>" for size in self.tile.sizes)
        return f"cute::Shape<{m}, cute::Shape<{n}, cute::_2>, {k}>"

    def _stride_b(self) -> str:
        """Strides of B; of a pair, the second one leads from one right operand to the other."""
        if not self.op.is_pair:
            return self.b.type
        n, k, batch = stride_parts(self.b.strides, self.b.unit)
        return f"cute::Stride<cute::Stride<{n}, int64_t>, {k}, {batch}>"

    def _collectives(self, epilogue: str) -> list[str]:
        sums = "FP8BlockScaledAccum" if self.op.blocks else "" if self.op.acc is None else "FP8FastAccum"
        return [
            *self._scale_types(),
            *self.collectives(epilogue, "Sm90", _SCHEDULES[self.mainloop][0] + sums),
        ]

    def _scale_types(self) -> list[str]:
        """How scales of blocks lie: along K, as the program has them."""
        if (blocks := self.op.blocks) is None:
            return []
        rows, columns = blocks[::-1] if self.exchanged else blocks
        major = "cute::GMMA::Major::K"
        config = f"cutlass::detail::Sm90BlockwiseScaleConfig<{rows}, {columns}, {BLOCK}, {major}, {major}>"
        return [
            "using Scales =",
            *wrapped(f"{config};"),
            "using LayoutSFA = decltype(Scales::deduce_layoutSFA());",
            "using LayoutSFB = decltype(Scales::deduce_layoutSFB());",
        ]

    def collectives(self, epilogue: str, arch: str, schedule: str, tile: str = "TileShape") -> list[str]:
        """Return the kernel's type, made of its collectives."""
        columns = "cute::Shape<int, cute::_2>" if self.op.is_pair else "int"
        stage = "" if self.canonical else f"stage {self.op.stage.data} "
        too_much = f"{stage}needs more shared memory than a block has"
        return [
            "using CollectiveEpilogue =",
            *wrapped(f"{epilogue};"),
            f"using CollectiveMainloop = {self.mainloop_wrapper}typename "
            "cutlass::gemm::collective::CollectiveBuilder<",
            *wrapped(
                f"cutlass::arch::{arch}, cutlass::arch::{self.operator_class}, "
                f"ElementA, {self._stride('A')}, {self.aligned(self.a)}, "
                f"ElementB, {self._stride('B')}, {self.aligned(self.b)}, "
                f"{self.accumulator}, {tile}, "
                f"ClusterShape, {self._stage_count()}, "
                f"cutlass::gemm::{schedule}>::CollectiveOp{'>' * bool(self.mainloop_wrapper)};"
            ),
            "using Kernel = cutlass::gemm::kernel::GemmUniversal<",
            f"    cute::Shape<int, {columns}, int, int>, CollectiveMainloop, CollectiveEpilogue,",
            f"    {self.tile_scheduler}>;",
            f"static_assert(sizeof(typename Kernel::SharedStorage) <= {self.target.smem_bytes},",
            f"              {string_literal(too_much)});",
        ]

    def _stage_count(self) -> str:
        """Return the number of stages; with block scales CUTLASS takes none but its own."""
        if not self.op.scales:
            return f"mucc::gemm::Stages<{self.stages}>"
        stage = stage_bytes(config_of(self.op))
        left = (self.target.smem_bytes - self.stages * stage) // 128 * 128
        return f"cutlass::gemm::collective::StageCountAutoCarveout<{left}>"

    def _stride(self, side: str) -> str:
        """Return the strides of an operand, with the layout of its scales."""
        return f"cute::tuple<Stride{side}, LayoutSF{side}>" if self.op.scales else f"Stride{side}"

    def _scale_arguments(self) -> list[str]:
        """Where scales of blocks lie."""
        if not self.op.scales:
            return []
        return [
            line
            for side, place in zip("AB", self.scales, strict=False)
            for line in (
                f"to.mainloop.ptr_SF{side} = {place}.as<float>();",
                f"to.mainloop.layout_SF{side} = Scales::tile_atom_to_shape_SF{side}("
                "cute::make_shape(p.m, p.n, p.k, 1));",
            )
        ]

    @property
    def tile_scheduler(self) -> str:
        """The C++ type that tells the kernel how to walk over tiles."""
        return f"cutlass::gemm::{'StreamK' if self.op.needs_scratch else 'Persistent'}Scheduler"

    @property
    def mainloop_wrapper(self) -> str:
        """What is put around CUTLASS's mainloop, up to it."""
        if self.fetched:
            return f"mucc::gemm::Ahead<TileShape, {len(self.fetched)}, "
        return "mucc::gemm::Promoted<" if self.op.parts > 1 else ""

    @property
    def fetched(self) -> list[str]:
        """What is fetched into L2 for the epilogue: an initializer of `Fetched` for each matrix."""
        return self.epilogue.fetched if self.op.is_pair and isinstance(self.epilogue, LeanEpilogue) else []

    @property
    def accumulator(self) -> str:
        """The C++ type of sums."""
        return "int32_t" if self.op.compute.data in (Compute.S8, Compute.U8) else "float"

    @staticmethod
    def element(operand: Matrix) -> str:
        """Return the C++ type of an operand's elements."""
        return CUTLASS_TYPES[operand.memory.type.dtype]

    def multiplied(self, operand: Matrix) -> str:
        """Return the format in which the tensor cores multiply an operand."""
        return "tf32" if self.op.compute.data in (Compute.TF32, Compute.TF32X3) else operand.memory.type.dtype

    def arguments(self) -> list[str]:
        """From a problem to CUTLASS's arguments."""
        given = self.epilogue.root.arguments
        begin = ["mucc::gemm::begin_arguments<Kernel>(p, to);", *self._scale_arguments()]
        lines = [*begin, *self.epilogue.locals]
        lines += [f"to.mainloop.ahead[{i}] = {text};" for i, text in enumerate(self.fetched)]
        if given != "{}":
            lines.append(f"to.epilogue.thread = {given};")
        if isinstance(self.epilogue, LeanEpilogue) and (ranges := self.epilogue.ranges):
            lines += [f"to.epilogue.rows.range[{i}] = {text};" for i, text in enumerate(ranges)]
        if self.mainloop is not Mainloop.WARPSPECIALIZED:
            lines.append("mucc::gemm::set_raster<Kernel>(p, to);")
        if self.op.needs_scratch:
            lines.append("mucc::gemm::set_splits<Kernel>(p, to);")
        return [
            "// What CUTLASS makes of a problem.",
            "void arguments(mucc::gemm::Problem const& p, Kernel::Arguments& to) {",
            *(f"  {line}" for line in lines),
            "}",
        ]

    def schedule(self) -> list[str]:
        if self.mainloop is Mainloop.WARPSPECIALIZED:
            return []
        scheduler, raster = self.scheduler, Raster(self.scheduler.raster.data)
        lines = [f"  p.swizzle = {scheduler.swizzle.data};"]
        if raster is not Raster.HEURISTIC:
            lines.append(f"  p.raster = mucc::gemm::Raster::{_RASTERS[raster]};")
        if self.op.needs_scratch:
            lines.append(f"  p.splits = {scheduler.splits.data};")
            if scheduler.kind.data == SchedulerKind.SPLIT_K:
                lines.append("  p.split_k = true;")
        return lines
