"""C++ of scan kernels (mucc/scan.cuh)."""

from __future__ import annotations

from mucc.codegen.across import AcrossWork
from mucc.codegen.kernel_code import LightCode
from mucc.codegen.memory import Places
from mucc.codegen.pointwise import THREADS, Parts
from mucc.codegen.texts import Entry, Texts
from mucc.dialects.cutlass.nodes import are_bits
from mucc.dialects.mu.ops.scan import Scan
from mucc.kernels.scan.op import ScanKernelOp

_KINDS = {
    (Scan.SUM, False): "mucc::Sum",
    (Scan.PROD, False): "mucc::Product",
    (Scan.SUM, True): "mucc::IntegerSum",
    (Scan.PROD, True): "mucc::IntegerProduct",
}
"""What combines elements, by the kind of scan and whether they are integers."""


class ScanCode(LightCode):
    """A kernel of mucc/scan.cuh."""

    HEADER = "mucc/scan.cuh"
    LAUNCH_HEADER = "mucc/scan_launch.h"

    def __init__(self, op: ScanKernelOp, places: Places):
        self.op, self.places = op, places

    def summary(self) -> str:
        extents = ", ".join(map(str, self.op.extents))
        return f"scan of [{extents}] along axis {self.op.axis.value.data}"

    def texts(self, entry: str) -> Texts:
        return ScanWork(self.op, self.places).texts(entry)


class ScanWork(AcrossWork):
    """The C++ of a scan kernel: the pointwise work before the scan, the scan, the work behind it."""

    def __init__(self, op: ScanKernelOp, places: Places):
        self.scan = op
        super().__init__(op, op.extents, [op.axis.value.data], places)

    def texts(self, entry: str) -> Texts:
        """Return the C++ of the kernel in parts."""
        kept, _ = self.merged()
        rows = self.runs_fastest(self.axes)
        rank = len(kept) + 1
        vector = self.widest if rows else min(self.widest, 4)
        values = {
            "kRows": rows,
            "kReverse": self.scan.reverse is not None,
            "kExclusive": self.scan.exclusive is not None,
        }
        flags = ", ".join(f"{name} = {str(value).lower()}" for name, value in values.items())
        return self.assemble(
            Parts(
                fast=rank - 1 if rows else len(kept) - 1,
                constants=[
                    f"static constexpr int kRank = {rank}, kVector = {vector}, kThreads = {THREADS};",
                    f"static constexpr int kKept = {len(kept)};",
                    f"static constexpr bool {flags};",
                ],
                work=self._work(),
                entries=_entries(entry, rows),
                launcher="launch_scan",
                scratch="scan_scratch",
                spliced=[body.name for body in self.bodies],
            )
        )

    def _work(self) -> list[str]:
        running = self.scan.running
        kind = _KINDS[self.scan.kind.data, are_bits(running.value)]
        return [f"  using Kind = {kind};", "", *self.values_and_store(running.value, [running.result])]


def _entries(entry: str, rows: bool) -> list[Entry]:
    """Return the kernels in the order of `launch_scan`: by how a row is shared, then elements and vectors."""
    given = "Work const op, mucc::Extents<Op::kRank> const extents, mucc::ScanShape const shape"
    functions = (
        (
            ("warp", "warps<{}>", "warps<{}>"),
            ("short", "rows<{}, 2>", "rows<{}, 2>"),
            ("medium", "rows<{}, 4>", "rows<{}, 4>"),
            # Single elements take the registers of their addresses: with more loads fewer blocks fit.
            ("block", "rows<{}, 8>", "rows<{}>"),
            ("split", "rows<{}, 0, true>", "rows<{}, 0, true>"),
        )
        if rows
        else (
            ("columns", "columns<{}, false>", "columns<{}, false>"),
            ("split", "columns<{}, true>", "columns<{}, true>"),
        )
    )
    return [
        Entry(f"{entry}_{name}{width}", given, f"mucc::scan_{function.format(vector)}(op, extents, shape)")
        for name, single, several in functions
        for width, vector, function in (("", "1", single), ("_vector", "Op::kVector", several))
    ]
