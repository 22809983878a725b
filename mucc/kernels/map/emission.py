"""C++ of pointwise kernels: those that compute (mucc/map.cuh), and those that only move (mucc/pack.cuh)."""

from __future__ import annotations

from mucc.codegen.kernel_code import LightCode
from mucc.codegen.memory import Places
from mucc.codegen.pointwise import Pointwise
from mucc.codegen.texts import Texts
from mucc.kernels.map.op import MapOp
from mucc.kernels.map.packing import Move, pack_texts


class MapCode(LightCode):
    """A kernel of mucc/map.cuh."""

    HEADER = "mucc/map.cuh"

    def __init__(self, op: MapOp, places: Places):
        self.op, self.places = op, places

    @property
    def light_headers(self) -> tuple[str, ...]:
        return (MapCode.HEADER, PackCode.HEADER)

    def summary(self) -> str:
        return f"map of [{', '.join(map(str, self.op.extents))}]"

    def texts(self, entry: str) -> Texts:
        return Pointwise(self.op, self.op.extents, self.places).texts(entry)


class PackCode(MapCode):
    """A kernel of mucc/pack.cuh."""

    HEADER = "mucc/pack.cuh"

    def __init__(self, op: MapOp, places: Places, move: Move):
        super().__init__(op, places)
        self.move = move

    def texts(self, entry: str) -> Texts:
        return pack_texts(self.op, self.places, entry, self.move)
