"""C++ of pointwise kernels: those that compute (mucc/map.cuh), and those that only move (mucc/pack.cuh)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from mucc.codegen.kernel_code import LightCode
from mucc.codegen.memory import Places
from mucc.codegen.pointwise import THREADS, Parts, Pointwise
from mucc.codegen.texts import INDICES, Entry, Texts
from mucc.kernels.map.nodes import ScatterStoreOp
from mucc.kernels.map.op import MapOp
from mucc.kernels.map.packing import Move, pack_texts


class MapWork(Pointwise):
    """The text of a kernel of mucc/map.cuh."""

    def node(self, node: Operation) -> None:
        if isinstance(node, ScatterStoreOp):
            self.store(node, self.scattered_output(node))
        else:
            super().node(node)

    @property
    def groups(self) -> Sequence[Sequence[int]]:
        return [range(len(self.space))]

    def texts(self, entry: str) -> Texts:
        """Return the C++ of the kernel in parts."""
        rank = sum(len(group) for group in self.merged())
        stores: list[str] = []
        for o, result in zip(self.outputs, self.results, strict=True):
            how = f"_rows({o.member}, {o.rows.index}" if o.rows else f"({o.member}"
            stores.append(f"    mucc::store{how}, p, {result});")
        return self.assemble(
            Parts(
                fast=rank - 1,
                constants=[
                    f"static constexpr int kRank = {rank}, kVector = {self.widest}, kThreads = {THREADS};"
                ],
                work=[
                    "  template <int V, class P>",
                    "  MUCC_DEVICE void run(P const& p) const {",
                    *(f"    {s}" for s in self.statements),
                    *stores,
                    "  }",
                ],
                entries=_entries(entry),
                launcher="launch_map",
            )
        )


def _entries(entry: str) -> list[Entry]:
    return [
        Entry(
            f"{entry}_map{width}{suffix}",
            f"Work const op, mucc::Extents<Op::kRank> const extents, {index} total",
            f"mucc::map<{vector}>(op, extents, total)",
        )
        for width, vector in (("", "1"), ("_vector", "Op::kVector"))
        for suffix, index in INDICES
    ]


class MapCode(LightCode):
    """A kernel of mucc/map.cuh."""

    HEADER = "mucc/map.cuh"
    LAUNCH_HEADER = "mucc/map_launch.h"

    def __init__(self, op: MapOp, places: Places):
        self.op, self.places = op, places

    @property
    def light_headers(self) -> tuple[str, ...]:
        return (MapCode.HEADER, PackCode.HEADER)

    def summary(self) -> str:
        return f"map of [{', '.join(map(str, self.op.extents))}]"

    def texts(self, entry: str) -> Texts:
        return MapWork(self.op, self.op.extents, self.places).texts(entry)


class PackCode(MapCode):
    """A kernel of mucc/pack.cuh."""

    HEADER = "mucc/pack.cuh"

    def __init__(self, op: MapOp, places: Places, move: Move):
        super().__init__(op, places)
        self.move = move

    def texts(self, entry: str) -> Texts:
        return pack_texts(self.op, self.places, entry, self.move)
