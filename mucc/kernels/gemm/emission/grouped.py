"""Grouped contractions for Hopper: the kernels of `sm90_gemm` with groups of rows in the place of batches.

A mainloop, a tile scheduler and an epilogue of ours (mucc/grouped.cuh) read on the device where groups lie.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from mucc.codegen.kernel_code import Headers
from mucc.codegen.memory import CUTLASS_TYPES, ONE, ZERO, EmissionError, Memory
from mucc.codegen.names import string_literal
from mucc.dialects.mu.types import TensorType
from mucc.kernels.gemm.emission.graph import Node
from mucc.kernels.gemm.emission.lean import LeanEpilogue
from mucc.kernels.gemm.emission.sm90 import Sm90Gemm
from mucc.kernels.gemm.nodes import GroupRowOp, GroupScalarOp, ScatterDOp


@dataclass
class GroupedEpilogue(LeanEpilogue):
    """mucc's own epilogue over the rows of a group."""

    @property
    def template(self) -> str:
        return "ScatteredEpilogue" if isinstance(self.op.destination, ScatterDOp) else "GroupedEpilogue"

    def load_by_group(self, op: GroupRowOp | GroupScalarOp) -> Node:
        type = op.source.type
        assert isinstance(type, TensorType)
        memory, axes = self.problem.places.view(op.source, type.dims)
        self.names[op.result] = memory.name
        element = CUTLASS_TYPES[type.dtype]
        is_row = isinstance(op, GroupRowOp)
        groups = axes[0].stride
        place, _ = self.tensor(memory, (ZERO, ONE if is_row else ZERO, groups), 1 if is_row else None)
        if is_row:
            hint, text = self.hint("Row", memory.name), f"mucc::gemm::Row<{element}, {self.tile[1]}>"
        else:
            hint, text = self.hint("Scalar", memory.name), f"mucc::gemm::Scalar<{element}>"
        given = f"{place}.as<{element}>(), {place}.stride[2]" + ("" if is_row else f", {element}(0)")
        return Node(self.alias(hint, text).type, f"{{{{{given}}}}}")


class GroupedGemm(Sm90Gemm):
    """A contraction of groups of rows, each with a matrix B of its own."""

    @property
    def headers(self) -> Headers:
        return replace(super().headers, device="mucc/grouped.cuh", host="mucc/grouped_launch.h")

    def build_epilogue(self) -> LeanEpilogue:
        if self.d is None or self.exchanged:
            raise EmissionError("a grouped contraction stores rows of one matrix")
        self.c = None  # read by the epilogue, as any other matrix is
        return self.lean_epilogue(GroupedEpilogue)

    @property
    def tile_scheduler(self) -> str:
        return "mucc::gemm::GroupedTiles"

    @property
    def mainloop_wrapper(self) -> str:
        return "mucc::gemm::GroupedMainloop<"

    def arguments(self) -> list[str]:
        lines = super().arguments()
        return [*lines[:-1], "  mucc::gemm::set_groups<Kernel>(p, to);", lines[-1]]

    def schedule(self) -> list[str]:
        assert self.op.offsets is not None and self.d is not None
        lines = [*super().schedule(), f"  p.groups = {self._place(self.op.offsets)};"]
        if isinstance(store := self.op.destination, ScatterDOp):
            count = self.places.extent(self.d.memory.type.dims[0])
            stage = string_literal(self.op.stage.data)
            lines += [
                f"  p.rows = {self._place(store.rows)};",
                f'  if (mucc::gemm::extent(c, {stage}, "rows", {count}, p.row_count)) return 1;',
            ]
        return lines

    def _place(self, value: SSAValue) -> str:
        """Where a contiguous vector lies, as a C++ initializer of a `mucc::gemm::Operand`."""
        memory = self.places.find(value)
        assert isinstance(memory, Memory)
        return "{" + memory.address + "}"
