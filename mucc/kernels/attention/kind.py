"""The kind of attention kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import bf16, f16
from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops.attention import AttentionOp, ScoredAttentionOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Dims, Shaped
from mucc.dialects.rewriting import Pass
from mucc.kernels.attention.op import AttendOp, AttentionKernelOp, ScoreOp
from mucc.kernels.interface import Kind, Meaning

if TYPE_CHECKING:
    from mucc.codegen.kernel_code import KernelCode
    from mucc.codegen.memory import Places
    from mucc.kernels.interpreter import CutlassFunctions
    from mucc.kernels.lowering.program import ProgramBuilder

MOST = 256
"""The most elements of a query, key or value, which lie in registers and shared memory."""

LEADING = 3
"""The most leading axes: as many as tensor maps have, besides the rows and the elements of a row."""


def takes(query: SSAValue, key: SSAValue, value: SSAValue, space: Dims) -> bool:
    """Whether the kernels compute attention of these operands, whose result has the extents `space`."""
    types = [Shaped.of(v.type) for v in (query, key, value)]
    widths = (types[0].dims[-1], types[2].dims[-1])
    alike = len({t.element_type for t in types}) == 1 and types[0].element_type in (bf16, f16)
    return alike and len(space) <= LEADING + 2 and all(isinstance(w, int) and w <= MOST for w in widths)


class AttentionKind(Kind[AttentionKernelOp]):
    """Kernels that compute attention without its scores in memory.

    Masks and biases are computed on the way, from tensors and from the indices of a score.
    """

    name = "attention"
    op = AttentionKernelOp
    nodes = (ScoreOp, AttendOp)

    passes = MappingProxyType({"form-attention": "mucc.kernels.attention.form:FormAttention"})

    def operand_passes(self, target: str) -> tuple[Pass, ...]:
        from mucc.kernels.attention.form import FormAttention

        return (FormAttention(),)

    def claims(self, anchor: AnchorOp | None, target: str | None = None) -> bool:
        """Claim 16-bit attention whose rows have at most `MOST` elements; other attention is decomposed."""
        attention = isinstance(anchor, AttentionOp | ScoredAttentionOp)
        return attention and takes(anchor.query, anchor.key, anchor.value, anchor.space)

    def memory_operands(self, anchor: AnchorOp) -> Sequence[SSAValue]:
        assert isinstance(anchor, AttentionOp | ScoredAttentionOp)
        return (anchor.query, anchor.key, anchor.value)

    def lower(self, builder: ProgramBuilder, stage: StageOp) -> None:
        from mucc.kernels.attention.lower import lower_attention

        lower_attention(builder, stage)

    def reads(self, op: AttentionKernelOp) -> Sequence[SSAValue]:
        return (op.score.query, op.score.key, op.attend.value)

    def takes_scratch(self, op: AttentionKernelOp) -> bool:
        return True

    def needs_scratch(self, op: AttentionKernelOp) -> bool:
        return op.may_decode or op.is_ranged

    def interpret(self, functions: CutlassFunctions, op: AttentionKernelOp, args: tuple[Any, ...]) -> None:
        functions.begin(op.extents)

    def meanings(self) -> Mapping[type[Operation], Meaning]:
        from mucc.kernels.attention.meaning import attend, score

        return {ScoreOp: score, AttendOp: attend}

    def code(self, op: AttentionKernelOp, places: Places, *, canonical: bool = False) -> KernelCode:
        from mucc.kernels.attention.emission import AttentionCode

        return AttentionCode(op, places)
