"""C++ of pointwise kernels: those that compute (mucc/map.cuh), and those that only move (mucc/pack.cuh)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from xdsl.ir import Operation

from mucc.codegen.kernel_code import LightCode
from mucc.codegen.memory import Places
from mucc.codegen.pointwise import THREADS, Operand, Parts, Pointwise
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
        axes = [run for group in self.merged() for run in group]
        rank = len(axes)
        statements = self._paired_loads(axes)
        stores: list[str] = []
        results = {o.member: result for o, result in zip(self.outputs, self.results, strict=True)}
        for first, second in _pairs(self, self.outputs, axes):
            self.pairs[first] = second
            stores.append(f"    mucc::store_two({first}, p, {results[first]}, {results[second]});")
        stored = {*self.pairs, *self.pairs.values()}
        for o, result in zip(self.outputs, self.results, strict=True):
            if o.member in stored:
                continue
            how = f"_rows({o.member}, {o.rows.index}" if o.rows else f"({o.member}"
            stores.append(f"    mucc::store{how}, p, {result});")
        return self.assemble(
            Parts(
                fast=rank - 1,
                constants=[
                    f"static constexpr int kRank = {rank}, kVector = {self.widest}, kThreads = {THREADS};",
                    f"static constexpr uint32_t kKnown[] = {{{self.known(axes)}}};",
                ],
                work=[
                    "  template <int V, class P>",
                    "  MUCC_DEVICE void run(P const& p) const {",
                    *(f"    {s}" for s in statements),
                    *stores,
                    "  }",
                ],
                entries=_entries(entry),
                launcher="launch_map",
            )
        )

    def _paired_loads(self, axes: Sequence[Sequence[int]]) -> list[str]:
        """Return the statements, with one load for each pair of operands that alternate in memory."""
        statements = list(self.statements)
        for first, second in _pairs(self, self.loads, axes):
            texts = [f" = mucc::load<V>({member}, p);" for member in (first, second)]
            lines = [next((s for s in statements if s.endswith(text)), None) for text in texts]
            if lines[0] is None or lines[1] is None:
                continue
            self.pairs[first] = second
            names = [line.split()[2] for line in lines if line is not None]
            at = min(statements.index(line) for line in lines if line is not None)
            statements.insert(at, f"auto const [{names[0]}, {names[1]}] = mucc::load_two<V>({first}, p);")
            statements = [s for s in statements if s not in lines]
        return statements


def _pairs(
    work: MapWork, operands: Sequence[Operand], axes: Sequence[Sequence[int]]
) -> list[tuple[str, str]]:
    """Return pairs of operands whose elements alternate in memory, each by the name of its member."""
    found: list[tuple[str, str]] = []
    for first, second in permutations(operands, 2):
        taken = {member for pair in found for member in pair}
        if not {first.member, second.member} & taken and work.alternate(first, second, axes, len(axes) - 1):
            found.append((first.member, second.member))
    return found


def _entries(entry: str) -> list[Entry]:
    return [
        Entry(
            f"{entry}_map{width}{suffix}",
            f"Work const op, mucc::Extents<Op::kRank> const extents, {index} total",
            f"mucc::map<{vector}>(op, extents, total)",
            when=f"mucc::may_map<Op>({vector}, {is_wide})",
        )
        for width, vector in (("", "1"), ("_vector", "Op::kVector"))
        for is_wide, (suffix, index) in zip(("false", "true"), INDICES, strict=True)
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
