"""Contractions for Hopper whose A threads copy: `sm90_gemm` with a mainloop of ours (mucc/copied.cuh)."""

from __future__ import annotations

from dataclasses import replace

from mucc.codegen.kernel_code import Headers
from mucc.codegen.memory import ONE, ZERO, Memory
from mucc.codegen.names import string_literal
from mucc.dialects.mu.schedule_attributes import Mainloop
from mucc.dialects.mu.types import Dims
from mucc.kernels.gemm.description import config_of
from mucc.kernels.gemm.emission.grouped import GroupedGemm
from mucc.kernels.gemm.emission.problem import Matrix
from mucc.kernels.gemm.emission.sm90 import Sm90Gemm
from mucc.kernels.gemm.scheduling.copied_rules import kernel
from mucc.target.facts import WIDEST_ACCESS


class CopiedGemm(Sm90Gemm):
    """A by cp.async, perhaps rows that an index names; B by TMA."""

    def kernel_mainloop(self, mainloop: Mainloop) -> Mainloop:
        return Mainloop(kernel(self.tile.sizes))

    @property
    def headers(self) -> Headers:
        return replace(super().headers, device="mucc/copied.cuh", host="mucc/copied_launch.h")

    @property
    def copied(self) -> int:
        """Bytes that A is copied by at a time."""
        sizes = self.target.copies(config_of(self.op))
        return next(iter(sizes.values()), WIDEST_ACCESS)

    @property
    def mainloop_wrapper(self) -> str:
        return f"mucc::gemm::CopiedMainloop<{self.copied}, {str(self.op.is_grouped).lower()}, "

    def _operand(self, which: str, outer: Dims, batches: Dims) -> Matrix:
        if which != "a" or not self.op.picks:
            return super()._operand(which, outer, batches)
        assert self.op.picked is not None
        memory = self.places.find(self.op.picked.base)
        assert isinstance(memory, Memory)
        return Matrix(memory, (memory.strides[0], ONE, ZERO))

    def arguments(self) -> list[str]:
        lines = super().arguments()
        return [*lines[:-1], "  mucc::gemm::set_picked<Kernel>(p, to);", lines[-1]]

    def schedule(self) -> list[str]:
        lines = super().schedule()
        if not self.op.picks or self.op.picked is None or self.op.picked.rows is None:
            return lines
        rows = self.places.find(self.op.picked.rows)
        assert isinstance(rows, Memory)
        count = self.places.extent(self.op.picked.base_dims[0])
        stage = string_literal(self.op.stage.data)
        return [
            *lines,
            f"  p.picked = {{{rows.address}}};",
            f'  if (mucc::gemm::extent(c, {stage}, "rows of A", {count}, p.picked_count)) return 1;',
        ]


class CopiedGroupedGemm(CopiedGemm, GroupedGemm):
    """The same of groups of rows, each with a matrix B of its own."""
