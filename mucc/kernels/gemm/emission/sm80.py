"""Contraction kernels around CUTLASS 2.x mainloops, for every target: `mucc/multistage.cuh`.

CUTLASS's own 2.x visitor trees are no part of them: they have no reductions by maximum, no unaligned rows,
no columns, and take longer to compile. What comes after the product is a struct of mucc's own instead
(`vectors`).
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation

from mucc.codegen.kernel_code import Headers
from mucc.codegen.memory import CUTLASS_TYPES, EmissionError
from mucc.codegen.names import string_literal
from mucc.dialects.mu.schedule_attributes import Raster, SchedulerKind
from mucc.dialects.mu.types import dtype_bytes
from mucc.kernels.gemm.emission.gemm import Gemm, wrapped
from mucc.kernels.gemm.emission.graph import Epilogue
from mucc.kernels.gemm.emission.problem import Matrix
from mucc.kernels.gemm.emission.vectors import MatrixNode, VectorEpilogue
from mucc.kernels.gemm.scheduling import multistage

_RASTERS = {Raster.ALONG_M: "kAlongM", Raster.ALONG_N: "kAlongN"}


class Sm80Gemm(Gemm):
    """Operands by cp.async, products by mma.sync (or multiply-adds), an epilogue on vectors."""

    @property
    def headers(self) -> Headers:
        return Headers(
            kernel="mucc/gemm_code.cuh",
            device="mucc/multistage.cuh",
            host="mucc/multistage_launch.h",
            driver="mucc::multistage::Host",
        )

    @property
    def compute(self) -> str:
        return self.op.compute.data.value

    def build_epilogue(self) -> Epilogue:
        warp = multistage.warp_tile(self.compute, self.tile.sizes)
        if warp is None:
            raise EmissionError(f"tile {self.tile} has no warps")
        self.warp = warp
        m, n, _ = self.tile.sizes
        self.vectors = VectorEpilogue(
            self.op,
            self.problem,
            self.namer,
            "",
            self.canonical,
            granules=dict(self._epilogue_granules()),
            tile=self.tile.sizes,
            threads=32 * (m // warp[0]) * (n // warp[1]),
        ).build()
        return self.vectors

    def _granules(self) -> list[int]:
        """Bytes by which A, B and the matrices of the epilogue may be accessed."""
        granules = self.op.granules
        if granules is None:
            raise EmissionError("a multistage kernel without granules: legalize-target has not run")
        return list(granules.get_values())

    def _epilogue_granules(self) -> Iterator[tuple[Operation, int]]:
        nodes = [op for op in self.op.nodes if isinstance(op, MatrixNode)]
        return zip(nodes, self._granules()[2:], strict=True)

    def types(self) -> list[str]:
        """Return the types of the mainloop, of the struct around it, and of the kernel."""
        element = CUTLASS_TYPES[self.a.memory.type.dtype]
        m, n, k = self.tile.sizes
        simt = self.compute == "f32"
        instruction = (1, 1, 1) if simt else (16, 8, multistage.INSTRUCTION_K[self.compute])
        units = "mucc::multistage::Simt" if simt else "mucc::multistage::Tensor"
        operator = "Split3" if self.compute == "tf32x3" else "Exact"
        stage = "" if self.canonical else f"stage {self.op.stage.data} "
        too_much = f"{stage}needs more shared memory than a block has"
        granules = self._granules()[:2]
        a, b = reversed(granules) if self.exchanged else granules
        return [
            f"using Element = {element};  // multiplied as {self.compute}",
            "using Mainloop = mucc::multistage::Mainloop<",
            f"    Element, {_layout(self.a, 'A')}, {self._access(a)},{self.tensor_comment(self.a)}",
            f"    {_layout(self.b, 'B')}, {self._access(b)},{self.tensor_comment(self.b)}",
            *wrapped(
                f"{units}, {_tile(m, n, k)}, {_tile(*self.warp, k)}, {_tile(*instruction)}, {self.stages}, "
                f"mucc::multistage::{operator}>;"
            ),
            "",
            *self.vectors.struct(),
            "",
            f"using Kernel = mucc::multistage::Kernel<Mainloop, {units}, Visitor, "
            f"{'true' if self.op.needs_scratch else 'false'}{', true' * self.streams}>;",
            f"static_assert(Kernel::kShared <= {self.target.smem_bytes}, {string_literal(too_much)});",
        ]

    @property
    def streams(self) -> bool:
        """Whether blocks share tiles evenly, wherever that cuts K."""
        return self.scheduler.kind.data == SchedulerKind.STREAM_K

    def _access(self, granule: int) -> int:
        """Elements of an operand in one copy; kernels without tensor cores copy them one by one."""
        if self.compute == "f32":
            return 1
        return granule // dtype_bytes(self.a.memory.type.element_type)

    def arguments(self) -> list[str]:
        """From a problem to what the struct reads and writes."""
        return [
            "// Where the matrices, vectors and numbers of a problem go.",
            "void arguments(mucc::gemm::Problem const& p, Visitor::Params& to) {",
            *(f"  {line}" for line in self.vectors.locals),
            "}",
        ]

    def schedule(self) -> list[str]:
        raster = Raster(self.scheduler.raster.data)
        lines = [f"  p.swizzle = {self.scheduler.swizzle.data};"]
        if raster is not Raster.HEURISTIC:
            lines.append(f"  p.raster = mucc::gemm::Raster::{_RASTERS[raster]};")
        if self.op.needs_scratch:
            lines.append(f"  p.splits = {self.scheduler.splits.data};")
        return lines


def _layout(matrix: Matrix, which: str) -> str:
    """CUTLASS's layout of A (M, K) or B (K, N), of a matrix over (M, K) or (N, K)."""
    row_major = matrix.is_row_major is (which == "A")
    return f"cutlass::layout::{'RowMajor' if row_major else 'ColumnMajor'}"


def _tile(*sizes: int) -> str:
    return f"mucc::multistage::Tile<{', '.join(map(str, sizes))}>"
