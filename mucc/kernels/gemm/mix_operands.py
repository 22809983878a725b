"""Mix operands: a contraction converts narrow weights itself where the target's kernels can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.elementwise import CastOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.quantization import DequantizeOp
from mucc.dialects.mu.ops.views import TransposeOp
from mucc.dialects.mu.rules import HALVES, WEIGHTS
from mucc.dialects.mu.types import Shaped, TensorType
from mucc.dialects.rewriting import Finding, Pass, rewrite
from mucc.kernels.gemm.granules import may_be_wide
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.base import GemmTarget
from mucc.kernels.lowering.widening import Narrow, is_widening
from mucc.target import DEFAULT_TARGET

COLUMNS = 16
"""What a fixed extent of the result must be a multiple of, so that TMA can store it at any dtype."""


@dataclass(frozen=True)
class Weights:
    """The narrow operand of a product: what it looks at, whether transposed, and its scales."""

    side: int
    matrix: SSAValue
    turned: bool
    scales: DequantizeOp | None
    is_cast: bool = False
    """Whether the program converts them itself by a cast, which needs no note where a kernel does it."""

    @staticmethod
    def of(op: MatmulOp, side: int) -> Weights | None:
        """Return the narrow weights on one side of a product; None if there are none."""
        value = op.operands[side]
        turned = isinstance(view := value.owner, TransposeOp)
        if isinstance(view, TransposeOp):
            value = view.operand
        scales = value.owner if isinstance(value.owner, DequantizeOp) else None
        matrix = scales.weights if scales else value
        is_cast = isinstance(cast := value.owner, CastOp)
        if isinstance(cast, CastOp) and is_widening(cast):
            # Of two that were cast neither is weights: both are converted once.
            matrix = cast.operand if Narrow.of(op.operands[1 - side]) is None else value
        narrow = Shaped.of(matrix.type).element_type in WEIGHTS
        wide = Shaped.of(op.operands[1 - side].type).element_type in HALVES
        return Weights(side, matrix, turned, scales, is_cast) if narrow and wide else None

    def obstacle(self, target: GemmTarget, op: MatmulOp) -> str | None:
        """Why the kernel cannot convert them; None where it can."""
        if not target.mixes:
            return f"no kernel of {target.name} converts weights"
        type, other = self.matrix.type, op.operands[1 - self.side].type
        if not isinstance(type, TensorType) or not isinstance(other, TensorType) or type.rank != 2:
            return "kernels convert one matrix of weights, not one for each batch"
        if type.unit_axis != (1 if self.turned == bool(self.side) else 0):
            return "weights are converted along K, and these do not lie along it"
        if other.unit_axis is None:
            return f"TMA copies rows of adjacent elements, and those of the {other.dtype} operand are apart"
        if self.scales is not None and not target.mixes_groups(self.scales.group):
            return f"tiles do not consist of groups of {self.scales.group}"
        kernel = op.parent_op()
        assert isinstance(kernel, KernelOp)
        columns = Shaped.of(op.result.type).dims[-1]
        for matrix, what in ((type, f"{type.dtype} weights"), (other, f"{other.dtype} operand")):
            if not may_be_wide(kernel, matrix):
                return f"TMA copies rows of whole 16 bytes, and those of the {what} are not"
        if isinstance(columns, int) and columns % COLUMNS:
            return f"rows of the result have {columns} elements, and the kernel stores multiples of {COLUMNS}"
        return None

    def mixed(self, op: MatmulOp) -> list[Operation]:
        """Return the ops of a product whose kernel converts the weights; the last one is the product."""
        new: list[Operation] = [TransposeOp(self.matrix)] if self.turned else []
        operands = list(op.operands[:2])
        operands[self.side] = new[0].results[0] if new else self.matrix
        scales = list(self.scales.operands[1:]) if self.scales else []
        return [*new, MatmulOp(operands[0], operands[1], op.compute, scales=scales, mixed=True)]


class _Mix(RewritePattern):
    """`x @ transpose(dequantize(w, s))` -> `x @ transpose(w)`, mixed, with scales `s`."""

    def __init__(self, target: GemmTarget):
        self.target = target

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, MatmulOp) or op.mixed is not None:
            return
        for weights in (Weights.of(op, 1), Weights.of(op, 0)):
            if weights is not None and weights.obstacle(self.target, op) is None:
                rewriter.replace(op, weights.mixed(op))
                return


def _kept_apart(module: ModuleOp, target: str) -> Iterator[Finding]:
    """Yield what a map kernel dequantises before a product, and why, in a module that `mix-operands` has
    seen.
    """
    for op in module.walk():
        for side in (1, 0) if isinstance(op, MatmulOp) and op.mixed is None else ():
            assert isinstance(op, MatmulOp)
            weights = Weights.of(op, side)
            if (
                weights is None
                or weights.is_cast
                or (why := weights.obstacle(gemm_target(target), op)) is None
            ):
                continue
            type = weights.matrix.type
            assert isinstance(type, TensorType)
            yield Finding(
                "MU3133",
                f"a map kernel converts these {type.dtype} weights before the product",
                op.location,
                notes=(why,),
            )


@dataclass(frozen=True)
class MixOperands(Pass):
    """Leave it to the kernel of a contraction to convert weights of 4 or 8 bits to 16-bit floats.

    ```
    %d = mu.dequantize %w, %s                %v = mu.transpose %w
    %v = mu.transpose %d             ->      %y = mu.matmul bf16 mixed %x, %v scales %s
    %y = mu.matmul bf16 %x, %v
    ```

    What the target's kernels cannot convert stays, and a map kernel converts it. So does what the user pinned
    with `stage`.
    """

    name = "mix-operands"

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        products = (inner for inner in op.walk() if isinstance(inner, MatmulOp))
        if any(Weights.of(product, side) for product in products for side in (0, 1)):
            rewrite(op, [_Mix(gemm_target(self.target))])

    def notes(self, op: ModuleOp) -> Iterator[Finding]:
        """Where weights are converted by a kernel of their own, which costs what they save."""
        return _kept_apart(op, self.target)
