"""C++ of sort kernels (mucc/sort.cuh)."""

from __future__ import annotations

from collections.abc import Sequence

from mucc.codegen.across import AcrossWork
from mucc.codegen.kernel_code import LightCode
from mucc.codegen.memory import Places
from mucc.codegen.pointwise import THREADS, Parts
from mucc.codegen.texts import Entry, Texts
from mucc.dialects.cutlass.nodes import are_bits
from mucc.kernels.sort.op import SortKernelOp
from mucc.kernels.sort.ways import Way, ways


class SortCode(LightCode):
    """A kernel of mucc/sort.cuh."""

    HEADER = "mucc/sort.cuh"
    LAUNCH_HEADER = "mucc/sort_launch.h"

    def __init__(self, op: SortKernelOp, places: Places):
        self.op, self.places = op, places

    def summary(self) -> str:
        extents, taken = ", ".join(map(str, self.op.extents)), self.op.taken
        what = "sort" if taken is None else f"first {taken}"
        return f"{what} of [{extents}] along axis {self.op.axis.value.data}"

    def texts(self, entry: str) -> Texts:
        return SortWork(self.op, self.places).texts(entry)


class SortWork(AcrossWork):
    """The C++ of a sort kernel: the pointwise work before the sort, the sort, the work behind it."""

    def __init__(self, op: SortKernelOp, places: Places):
        self.sort = op
        super().__init__(op, op.extents, [op.axis.value.data], places)

    def texts(self, entry: str) -> Texts:
        """Return the C++ of the kernel in parts."""
        kept, _ = self.merged()
        rank, taken = len(kept) + 1, self.sort.taken
        found = ways(self.sort.extent, taken)
        vector = self.widest if self.runs_fastest(self.axes) else 1
        given = ", ".join(f"{{{way.lanes}, {way.items}}}" for way in found)
        descending = str(self.sort.descending is not None).lower()
        return self.assemble(
            Parts(
                fast=rank - 1,
                constants=[
                    f"static constexpr int kRank = {rank}, kVector = {vector}, kThreads = {THREADS};",
                    f"static constexpr int kKept = {len(kept)}, kTaken = {taken or 0};",
                    f"static constexpr bool kDescending = {descending};",
                    f"static constexpr mucc::SortWay kWays[] = {{{given}}};",
                ],
                work=self._work(),
                entries=_entries(entry, found, vector > 1),
                launcher="launch_sort",
                free_outputs=taken is not None,
            )
        )

    def _work(self) -> list[str]:
        node, position = self.sort.sorted, self.sort.position
        keys = "mucc::IntegerKeys" if are_bits(node.value) else "mucc::FloatKeys"
        results = [node.result, None if position is None else position.result]
        return [f"  using Keys = {keys};", "", *self.values_and_store(node.value, results)]


def _entries(entry: str, found: Sequence[Way], has_vectors: bool) -> list[Entry]:
    """Return the kernels in the order of `launch_sort`: by the way, then elements and vectors."""
    parameters = "Work const op, mucc::Extents<Op::kRank> const extents, int64_t rows, int64_t length"
    entries: list[Entry] = []
    for way in found:
        name = f"sort{way.longest}" if way.longest else "pick"
        for width, vector in (("", "1"), ("_vector", "Op::kVector"))[: 2 if has_vectors else 1]:
            sizes = (
                f"sort_rows<{vector}, {way.lanes}, {way.items}>" if way.longest else f"pick_rows<{vector}>"
            )
            call = f"mucc::{sizes}(op, extents, rows, length)"
            entries.append(Entry(f"{entry}_{name}{width}", parameters, call))
    return entries
