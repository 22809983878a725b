"""The kind of attention kernels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import Float8E4M3FNType
from xdsl.ir import Operation, SSAValue

from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.cutlass.views import view_of
from mucc.dialects.mu.ops.attention import AttentionLogSumExpOp, AttentionOp, ScoredAttentionOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.settings import MAINLOOP, SCHEDULER, STAGES, TILE, Chosen
from mucc.dialects.mu.types import Dims, Shaped
from mucc.dialects.rewriting import Finding
from mucc.kernels.attention.op import AttendOp, AttentionKernelOp, ScoreOp, ScoreSumOp
from mucc.kernels.attention.operands import takes, takes_f32
from mucc.kernels.interface import IndexTensor, Kind, Meaning, Measured
from mucc.kernels.lowering.access import Axes
from mucc.kernels.lowering.inputs import Inputs

if TYPE_CHECKING:
    from mucc.codegen.kernel_code import KernelCode
    from mucc.codegen.memory import Places
    from mucc.kernels.attention.workload import AttentionWorkload
    from mucc.kernels.interpreter import CutlassFunctions
    from mucc.kernels.lowering.program import ProgramBuilder


class AttentionKind(Kind[AttentionKernelOp]):
    """Kernels that compute attention without its scores in memory.

    Masks and biases are computed on the way, from tensors and from the indices of a score.
    """

    name = "attention"
    op = AttentionKernelOp
    nodes = (ScoreOp, ScoreSumOp, AttendOp)

    def claims(self, anchor: AnchorOp | None, target: str | None = None) -> bool:
        """Claim attention whose rows have at most `MOST` elements, or `MOST_F32`; other is decomposed."""
        if isinstance(anchor, AttentionLogSumExpOp):
            return any(self._stores(anchor, use.operation) for use in anchor.query.uses)
        if not isinstance(anchor, AttentionOp | ScoredAttentionOp):
            return False
        operands = (anchor.query, anchor.key, anchor.value, anchor.space)
        return takes(*operands) or takes_f32(*operands)

    def _stores(self, sums: AttentionLogSumExpOp, op: Operation) -> bool:
        """Whether the kernel around an operation before it stores the log-sum-exp of its scores, too."""
        if not isinstance(op, AttentionOp) or not sums.is_of(op) or not self.claims(op):
            return False
        return op.parent_block() is sums.parent_block() and op.is_before_in_block(sums)

    def computes_with(self, anchor: AnchorOp, op: AnchorOp, inputs: Inputs) -> bool:
        return isinstance(op, AttentionLogSumExpOp) and self._stores(op, anchor)

    def keeps_in_flight(self, anchor: AnchorOp) -> bool:
        """Whether work behind attention joins it: results of e4m3 are f32, which are scaled and rounded."""
        if not isinstance(anchor, AttentionOp | ScoredAttentionOp):
            return False
        return Shaped.of(anchor.query.type).element_type == Float8E4M3FNType()

    def memory_operands(self, anchor: AnchorOp) -> Sequence[SSAValue]:
        assert isinstance(anchor, AttentionOp | ScoredAttentionOp | AttentionLogSumExpOp)
        values = () if isinstance(anchor, AttentionLogSumExpOp) else (anchor.value,)
        pages = () if anchor.pages is None else (anchor.pages,)
        return (anchor.query, anchor.key, *values, *pages)

    def repeats(self, anchor: AnchorOp, operand: SSAValue) -> Collection[int]:
        return range(len(Shaped.of(operand.type).dims) - 2)

    def stores_turned(self, anchor: AnchorOp, places: Axes) -> bool:
        """Whether rows of results stay rows in memory, which are written by vectors."""
        if isinstance(anchor, AttentionLogSumExpOp):
            return False
        return places[-1] == max((place for place in places if place is not None), default=None)

    def lower(self, builder: ProgramBuilder, stage: StageOp) -> None:
        from mucc.kernels.attention.lower import lower_attention

        lower_attention(builder, stage)

    settings = (TILE, MAINLOOP, STAGES, SCHEDULER)
    needs_own_schedule = True

    def workload(self, target: str, op: AttentionKernelOp, sizes: Mapping[str, int]) -> AttentionWorkload:
        from mucc.kernels.attention.workload import workload_of

        return workload_of(target, op, sizes)

    def card(self) -> str:
        from mucc.kernels.attention.card import CARD

        return CARD

    def select(
        self,
        program: ProgramOp,
        op: AttentionKernelOp,
        settings: Chosen,
        sizes: Mapping[str, int],
        measured: Measured,
    ) -> None:
        from mucc.kernels.attention.select import select

        select(program, op, settings, sizes, measured)

    def schedule_findings(self, program: ProgramOp, op: AttentionKernelOp) -> Iterable[Finding]:
        from mucc.kernels.attention.select import schedule_findings

        return schedule_findings(program, op)

    def manifest(self, op: AttentionKernelOp) -> dict[str, Any]:
        """Return the kernel's entry, with the settings that are pinned or were measured."""
        return {name: value for name, value in super().manifest(op).items() if value is not None}

    def reads(self, op: AttentionKernelOp) -> Sequence[SSAValue]:
        pages = () if op.score.pages is None else (op.score.pages,)
        return (op.score.query, op.score.key, op.attend.value, *pages)

    def parts(self, op: AttentionKernelOp) -> Mapping[SSAValue, Dims]:
        """Return the extents of the keys and values of all sequences, where they lie in pages."""
        if op.score.pages is None:
            return {}
        dims = {v: Shaped.of(v.type).dims for v in (op.score.key, op.attend.value)}
        return {v: (op.extents[0], *lead, op.extents[-1], width) for v, (*lead, _, _, width) in dims.items()}

    def index_tensors(self, op: AttentionKernelOp) -> Iterator[IndexTensor]:
        """Yield the table of pages: kernels bound what it names, and `MUCC_CHECK_INDICES` checks it."""
        if op.score.pages is not None:
            yield IndexTensor(view_of(op.score.pages).base, "rows", op.pages_in_all)

    def takes_scratch(self, op: AttentionKernelOp) -> bool:
        return True

    def needs_scratch(self, op: AttentionKernelOp) -> bool:
        return op.may_decode or op.is_ranged or op.transposes

    def interpret(self, functions: CutlassFunctions, op: AttentionKernelOp, args: tuple[Any, ...]) -> None:
        functions.begin(op.extents)

    def meanings(self) -> Mapping[type[Operation], Meaning]:
        from mucc.kernels.attention.meaning import attend, score, score_sum

        return {ScoreOp: score, ScoreSumOp: score_sum, AttendOp: attend}

    def code(self, op: AttentionKernelOp, places: Places, *, canonical: bool = False) -> KernelCode:
        from mucc.kernels.attention.emission import AttentionCode

        return AttentionCode(op, places)
