"""The kind of pointwise kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.indexed import ScatterOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.kernels.interface import Kind, Meaning
from mucc.kernels.map.nodes import ScatterStoreOp, StorePartsOp
from mucc.kernels.map.op import MapOp

if TYPE_CHECKING:
    from mucc.codegen.kernel_code import KernelCode
    from mucc.codegen.memory import Places
    from mucc.kernels.interpreter import CutlassFunctions
    from mucc.kernels.lowering.program import ProgramBuilder


class MapKind(Kind[MapOp]):
    """Kernels whose outputs are computed element by element from their inputs."""

    name = "map"
    op = MapOp
    nodes = (ScatterStoreOp, StorePartsOp)

    def claims(self, anchor: AnchorOp | None, target: str | None = None) -> bool:
        return anchor is None or isinstance(anchor, ScatterOp)

    def memory_operands(self, anchor: AnchorOp) -> Sequence[SSAValue]:
        return (anchor.rows,) if isinstance(anchor, ScatterOp) else ()

    def lower(self, builder: ProgramBuilder, stage: StageOp) -> None:
        from mucc.kernels.lowering.bodies import Body
        from mucc.kernels.map.lower import lower_map

        lower_map(builder, stage, Body(builder, stage), stage.stage_name.data)

    def interpret(self, functions: CutlassFunctions, op: MapOp, args: tuple[Any, ...]) -> None:
        functions.begin(op.extents)

    def meanings(self) -> Mapping[type[Operation], Meaning]:
        from mucc.kernels.map.meaning import MEANINGS

        return MEANINGS

    def code(self, op: MapOp, places: Places, *, canonical: bool = False) -> KernelCode:
        from mucc.kernels.map.emission import MapCode, PackCode
        from mucc.kernels.map.packing import move_of

        move = move_of(op, places)
        return MapCode(op, places) if move is None else PackCode(op, places, move)
