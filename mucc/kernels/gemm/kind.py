"""Contraction kernels as a kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from xdsl.ir import Attribute, SSAValue

from mucc.dialects.cutlass.attributes import RequirementAttr
from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.contraction import ContractionOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.schedule import Mainloop
from mucc.dialects.rewriting import Finding, Pass
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.interface import FormingStage, IndexTensor, Kind, Measured, Offer

if TYPE_CHECKING:
    from mucc.codegen.kernel_code import KernelCode
    from mucc.codegen.memory import Places
    from mucc.kernels.interpreter import CutlassFunctions
    from mucc.kernels.lowering.program import ProgramBuilder


class GemmKind(Kind[GemmOp]):
    """Kernels that multiply matrices, with an epilogue."""

    name = "gemm"
    op = GemmOp

    def claims(self, anchor: AnchorOp | None, target: str | None = None) -> bool:
        return isinstance(anchor, ContractionOp)

    def memory_operands(self, anchor: AnchorOp) -> Sequence[SSAValue]:
        return anchor.operands

    def keeps_in_flight(self, anchor: AnchorOp) -> bool:
        return True

    takes_integers = False

    def takes(self, stage: FormingStage, op: AnchorOp) -> bool:
        from mucc.kernels.gemm.claims import takes

        return takes(stage, op)

    passes = MappingProxyType(
        {
            "mix-operands": "mucc.kernels.gemm.mix_operands:MixOperands",
            "pair-contractions": "mucc.kernels.gemm.pair_contractions:PairContractions",
        }
    )

    def operand_passes(self, target: str) -> tuple[Pass, ...]:
        from mucc.kernels.gemm.mix_operands import MixOperands

        return (MixOperands(target),)

    def stage_passes(self, target: str) -> tuple[Pass, ...]:
        from mucc.kernels.gemm.pair_contractions import PairContractions

        return (PairContractions(target),)

    def lower(self, builder: ProgramBuilder, stage: StageOp) -> None:
        from mucc.kernels.gemm.lower import lower_contraction

        lower_contraction(builder, stage)

    def unresolved(self, op: GemmOp) -> str | None:
        return None if op.tile and op.cluster and op.mainloop and op.scheduler else "no schedule chosen"

    def uncounted(self, op: GemmOp) -> str | None:
        return "stage count not resolved" if op.stages is None else None

    has_schedule = True

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

    def schedule(self, op: GemmOp) -> Mapping[str, str]:
        from mucc.kernels.gemm.select import settings_in

        settings = dict(settings_in(op))
        order = ("tile", "cluster", "mainloop", "stages", "scheduler", "exchange", "epilogue", "pdl")
        return {name: settings[name] for name in order if settings.get(name, "off") != "off"}

    def taking_any_rows(self, op: GemmOp) -> str | None:
        from mucc.kernels.gemm.description import problem_of
        from mucc.kernels.gemm.scheduling.multistage import can

        return "mainloop = multistage" if can(problem_of(op)) else None

    def select(
        self,
        program: ProgramOp,
        op: GemmOp,
        settings: Mapping[str, Attribute],
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

    def manifest(self, op: GemmOp) -> dict[str, Any]:
        assert op.tile and op.cluster and op.mainloop and op.scheduler and op.stages
        return {
            **super().manifest(op),
            "compute": op.compute.data.value,
            "tile": str(op.tile),
            "cluster": str(op.cluster),
            "mainloop": op.mainloop.data.value,
            "stages": op.stages.value.data,
            "scheduler": str(op.scheduler),
            "exchange": op.is_exchanged,
            "epilogue": str(op.epilogue) if op.epilogue else None,
            "pdl": op.is_dependent,
        }

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

    def code(self, op: GemmOp, places: Places, *, canonical: bool = False) -> KernelCode:
        from mucc.kernels.gemm.emission.families import gemm_of

        return gemm_of(op, places, canonical=canonical)
