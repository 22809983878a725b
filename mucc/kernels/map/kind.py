"""Pointwise kernels as a kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.indexed import ScatterOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.kernels.interface import Kind
from mucc.kernels.map.op import MapOp

if TYPE_CHECKING:
    from mucc.codegen.kernel_code import KernelCode
    from mucc.codegen.memory import Places
    from mucc.kernels.interpreter import CutlassFunctions
    from mucc.kernels.lowering.program import ProgramBuilder


class MapKind(Kind[MapOp]):
    """Kernels that compute each element of what they store from elements of what they load."""

    name = "map"
    op = MapOp

    def claims(self, anchor: AnchorOp | None, target: str | None = None) -> bool:
        return anchor is None or isinstance(anchor, ScatterOp)

    def memory_operands(self, anchor: AnchorOp) -> Sequence[SSAValue]:
        return (anchor.rows,) if isinstance(anchor, ScatterOp) else ()

    def lower(self, builder: ProgramBuilder, stage: StageOp) -> None:
        from mucc.kernels.lowering.bodies import Body
        from mucc.kernels.map.lower import lower_map

        lower_map(builder, stage, Body(builder, stage, None), stage.stage_name.data)

    def interpret(self, functions: CutlassFunctions, op: MapOp, args: tuple[Any, ...]) -> None:
        functions.begin(op.extents)

    def code(self, op: MapOp, places: Places, *, canonical: bool = False) -> KernelCode:
        from mucc.kernels.map.emission import MapCode, PackCode
        from mucc.kernels.map.packing import move_of

        move = move_of(op, places)
        return MapCode(op, places) if move is None else PackCode(op, places, move)
