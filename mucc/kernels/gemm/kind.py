"""Contraction kernels as a kind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation, SSAValue

from mucc.dialects.cutlass.attributes import RequirementAttr
from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.contraction import ContractionOp, MatmulOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.schedule_attributes import Mainloop
from mucc.dialects.mu.settings import (
    CLUSTER,
    EPILOGUE,
    EXCHANGE,
    MAINLOOP,
    PDL,
    REPRODUCIBLE,
    SCHEDULER,
    STAGES,
    TILE,
    Chosen,
)
from mucc.dialects.mu.types import Shaped, TensorType
from mucc.dialects.rewriting import Finding
from mucc.kernels.gemm.nodes import NODES, TAKES_INTEGERS
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.shape import GemmShapeAttr
from mucc.kernels.interface import Answer, FormingStage, IndexTensor, Kind, Meaning, Measured, Offer

if TYPE_CHECKING:
    from mucc.codegen.kernel_code import KernelCode
    from mucc.codegen.memory import Places
    from mucc.kernels.gemm.workload import GemmWorkload
    from mucc.kernels.interpreter import CutlassFunctions
    from mucc.kernels.lowering.program import ProgramBuilder


class GemmKind(Kind[GemmOp]):
    """Kernels that multiply matrices, with an epilogue."""

    name = "gemm"
    op = GemmOp
    nodes = NODES
    attributes = (GemmShapeAttr,)
    host_headers = ("mucc/gemm_launch.h",)

    def claims(self, anchor: AnchorOp | None, target: str | None = None) -> bool:
        return isinstance(anchor, ContractionOp)

    def memory_operands(self, anchor: AnchorOp) -> Sequence[SSAValue]:
        return anchor.operands

    def repeats(self, anchor: AnchorOp, operand: SSAValue) -> Collection[int]:
        from mucc.kernels.gemm.claims import takes_repeated

        return range(len(Shaped.of(operand.type).dims)) if takes_repeated(anchor, operand) else ()

    def keeps_in_flight(self, anchor: AnchorOp) -> bool:
        return isinstance(anchor, ContractionOp)

    def stores_ranges(self, anchor: AnchorOp, types: Sequence[TensorType], target: str | None) -> bool:
        from mucc.kernels.gemm.claims import stores_ranges

        return target is not None and stores_ranges(anchor, types, target)

    def stores_regrouped(self, anchor: AnchorOp) -> bool:
        return isinstance(anchor, MatmulOp | ReduceOp)

    takes_integers = TAKES_INTEGERS

    def takes(self, stage: FormingStage, op: AnchorOp) -> Answer:
        from mucc.kernels.gemm.claims import takes

        return takes(stage, op)

    def lower(self, builder: ProgramBuilder, stage: StageOp) -> None:
        from mucc.kernels.gemm.lower import lower_contraction

        lower_contraction(builder, stage)

    def unresolved(self, op: GemmOp) -> str | None:
        return None if op.tile and op.cluster and op.mainloop and op.scheduler else "no schedule chosen"

    def uncounted(self, op: GemmOp) -> str | None:
        return "stage count not resolved" if op.stages is None else None

    settings = (TILE, CLUSTER, MAINLOOP, STAGES, SCHEDULER, EXCHANGE, EPILOGUE, PDL, REPRODUCIBLE)

    def workload(self, target: str, op: GemmOp, sizes: Mapping[str, int]) -> GemmWorkload:
        from mucc.kernels.gemm.select import workload_of

        return workload_of(target, op, sizes)

    def card(self) -> str:
        from mucc.kernels.gemm.card import card

        return card()

    def body(self, op: GemmOp) -> str:
        from mucc.kernels.gemm.description import pointwise_digest

        return pointwise_digest(op)

    def offers(self, target: str) -> tuple[Offer, ...]:
        from mucc.kernels.gemm.scheduling import gemm_target

        found = gemm_target(target)
        computes = found.facts.multiprocessor.computes
        return tuple(
            Offer(
                family.mainloops,
                tuple(c for c in computes if c in family.computes),
                family.schedulers,
                family.takes_sparse,
            )
            for family in found.families
        )

    def taking_any_rows(self, op: GemmOp) -> str | None:
        from mucc.kernels.gemm.description import problem_of
        from mucc.kernels.gemm.scheduling.multistage import can

        return "mainloop = multistage" if can(problem_of(op)) else None

    def select(
        self,
        program: ProgramOp,
        op: GemmOp,
        settings: Chosen,
        sizes: Mapping[str, int],
        measured: Measured,
    ) -> None:
        from mucc.kernels.gemm.select import select

        select(program, op, settings, sizes, measured)

    def schedule_findings(self, program: ProgramOp, op: GemmOp) -> Iterable[Finding]:
        from mucc.kernels.gemm.legalize import tile_findings

        return tile_findings(program, op)

    def resolve_pipeline(self, program: ProgramOp, op: GemmOp) -> Iterable[Finding]:
        from mucc.kernels.gemm.legalize import resolve_pipeline

        return resolve_pipeline(program, op)

    def prepare(self, program: ProgramOp, op: GemmOp) -> None:
        from mucc.kernels.gemm.prepare import prepare

        prepare(program, op)

    def requirements(self, program: ProgramOp, op: GemmOp) -> Iterable[RequirementAttr | Finding]:
        from mucc.kernels.gemm.requirements import requirements

        return requirements(program, op)

    def reads(self, op: GemmOp) -> Sequence[SSAValue]:
        return (*op.read, *op.scales, *(() if op.offsets is None else (op.offsets,)))

    def details(self, op: GemmOp) -> dict[str, Any]:
        return {"compute": op.compute.data.value}

    def alignments(self, op: GemmOp, granule: int) -> Iterator[tuple[SSAValue, int]]:
        """Of operands and full matrices, which TMA copies; skinny kernels look at each call's addresses."""
        if op.mainloop and op.mainloop.data is Mainloop.SKINNY:
            return
        matrices = [value for value, _ in op.matrices]
        granules = op.granules.get_values() if op.granules else [granule] * len(matrices)
        yield from zip(matrices, granules, strict=True)

    def index_tensors(self, op: GemmOp) -> Iterator[IndexTensor]:
        if op.offsets is not None:
            yield IndexTensor(op.offsets, "ends", op.shape.extents[0][0])

    def takes_scratch(self, op: GemmOp) -> bool:
        return True

    def needs_scratch(self, op: GemmOp) -> bool:
        return op.needs_scratch

    def launches_lists(self, op: GemmOp) -> bool:
        return op.is_listed

    def interpret(self, functions: CutlassFunctions, op: GemmOp, args: tuple[Any, ...]) -> None:
        from mucc.kernels.gemm.meaning import interpret

        interpret(functions, op, args)

    def meanings(self) -> Mapping[type[Operation], Meaning]:
        from mucc.kernels.gemm.meaning import MEANINGS

        return MEANINGS

    def code(self, op: GemmOp, places: Places, *, canonical: bool = False) -> KernelCode:
        from mucc.kernels.gemm.emission.families import gemm_of

        return gemm_of(op, places, canonical=canonical)
