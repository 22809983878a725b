"""Interpreters of programs with stages: without the roundings of device kernels, and with bounds of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from xdsl.interpreter import Interpreter, PythonValues, impl, register_impls
from xdsl.ir import Attribute, Operation, SSAValue

from mucc.dialects.mu import bounded_values as b
from mucc.dialects.mu.arrays import Arrays, wrapped
from mucc.dialects.mu.bounded import BoundedArrays
from mucc.dialects.mu.bounded_values import Bounded
from mucc.dialects.mu.interpreter import MuFunctions, elementwise, is_parameter
from mucc.dialects.mu.meanings import MEANINGS
from mucc.dialects.mu.meanings.windows import pooled_terms
from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.attention import (
    AttentionBackwardOp,
    AttentionGradientOp,
    AttentionLogSumExpOp,
    AttentionOp,
    ScoredAttentionOp,
    ScoresOp,
    ScoringOp,
)
from mucc.dialects.mu.ops.by_name import is_convolution
from mucc.dialects.mu.ops.contraction import Accumulation, Compute
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.pooling import PoolOp
from mucc.dialects.mu.ops.random import RandomOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.scan import ScanOp
from mucc.dialects.mu.ops.sort import SortOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.pooling_kinds import Pooling
from mucc.dialects.mu.sum_roundings import FEW, independent_roundoff, sum_roundoff
from mucc.dialects.mu.types import Shaped, dtype_name


@register_impls
class ExactFunctions(MuFunctions):
    """Interpret programs and stages without rounding but for casts and boundaries that the user pinned.

    So products may be taken in another order: what is rounded between them is another number then.
    """

    def factor(self, op: Operation, operand: SSAValue, value: Any) -> Any:
        return value

    def narrowed(self, value: Any, type: Any) -> Any:
        return value

    @impl(e.StoredOp)
    def as_stored(self, interpreter: Interpreter, op: e.StoredOp, args: PythonValues) -> PythonValues:
        return args

    def passed(self, stage: StageOp, value: Any, type: Any) -> Any:
        return value if stage.pinned is None else self.stored(value, type)


EXACT = (
    *(
        e.NegOp,
        e.AbsOp,
        e.SignOp,
        e.FloorOp,
        e.CeilOp,
        e.RoundOp,
        e.TruncOp,
        e.MinOp,
        e.MaxOp,
        e.ReluOp,
        e.ClampOp,
    ),
    *(e.HardtanhOp, e.AndOp, e.OrOp, e.NotOp, e.CastOp, e.RetypeOp, e.StoredOp),
)
"""Operations of elements that round nothing, or as their type says."""

ARITHMETIC = {
    Compute.BF16: b.HALF,
    Compute.F16: b.HALF,
    Compute.F32: b.SINGLE,
    Compute.TF32: b.TF32,
    Compute.TF32X3: b.TF32X3,
    Compute.E4M3: b.EIGHT,
    Compute.E5M2: b.EIGHT,
    Compute.S8: b.EXACT,
    Compute.U8: b.EXACT,
}
"""What products lose in each format."""

FORMATS = {"f32": b.TF32, "bf16": b.HALF, "f16": b.HALF, "e4m3": b.EIGHT, "e5m2": b.EIGHT}
"""What products of attention lose, by the dtype of the operands."""

GELU = 5e-7
"""What `gelu` loses relative to its argument: `math.cuh` says half of it."""

FAST_TANH = 6e-7
"""What `tanh` of scores loses in kernels of attention: `fast_tanh` in `math.cuh` says half of it."""

UNEVEN = {"bf16": 2.0**-8, "f16": 2.0**-11, "e4m3": 2.0**-4}
"""The largest relative error of one rounding."""


@register_impls
class BoundedFunctions(MuFunctions):
    """Interpret stages with values that are rounded where kernels round, and bounds of what else these lose.

    Results are `Bounded`. Results of the stages in `unstored` are never in memory, and not rounded for it.
    """

    roundings = 1
    """How often attention rounds weights."""

    def __init__(self, arrays: Arrays, sizes: dict[str, int], unstored: Collection[str] = ()):
        bounded = BoundedArrays(arrays)
        super().__init__(bounded, sizes)  # pyright: ignore[reportArgumentType]  # its `xp` is no module
        self.bounded, self.exactly = bounded, ExactFunctions(arrays, sizes)
        self.unstored = unstored

    def passed(self, stage: StageOp, value: Any, type: Any) -> Any:
        return value if stage.stage_name.data in self.unstored else super().passed(stage, value, type)

    def given(self, value: Any) -> Bounded:
        return Bounded(self.bounded, value)

    def elementwise(self, op: e.ElementwiseOp, args: PythonValues) -> Bounded:
        if isinstance(op, e.SelectOp):
            return self.bounded.xp.where(*args)
        if not op.computes_integers:
            match op:
                case e.AddOp():
                    return args[0] + args[1]
                case e.SubOp():
                    return args[0] - args[1]
                case e.MulOp():
                    return args[0] * args[1]
                case e.DivOp():
                    return args[0] / args[1]
                case e.ExpOp():
                    return self.bounded.xp.exp(args[0])
                case e.CmpOp():
                    return self.bounded.compared(lambda x, y: self._plain(op, x, y), *args)
                case _:
                    pass
        relative, least = 0.0, 0.0
        if not op.computes_integers and not isinstance(op, EXACT):
            relative, least = b.FUNCTION, b.TINY
        if isinstance(op, e.GeluOp):
            least = GELU * self.bounded.plain.xp.abs(args[0].value)
        elif isinstance(op, e.TanhOp) and _is_of_scores(op):
            least = FAST_TANH
        found = self.bounded.applied(lambda *xs: self._plain(op, *xs), args, relative, least)
        return found.at_least(b.root_of_least(args[0])) if isinstance(op, e.SqrtOp) else found

    def _plain(self, op: e.ElementwiseOp, *values: Any) -> Any:
        return elementwise(self.bounded.plain, op, values)

    def factor(self, op: Operation, operand: SSAValue, value: Any) -> Any:
        self.bounded.arithmetic = self._arithmetic(op)
        if is_parameter(operand) or self._is_wide(operand.type):
            return value
        return self.stored(value, operand.type)

    def _arithmetic(self, op: Operation) -> b.Arithmetic:
        compute: Any = op.properties.get("compute")
        if compute is None:  # attention, in the format of its operands
            return FORMATS[dtype_name(Shaped.of(op.operands[0].type).element_type)]
        fast: Any = op.properties.get("acc")
        if fast is not None and fast.data is Accumulation.FAST:
            return b.EIGHT_FAST
        if compute.data is Compute.S8 and is_convolution(op):
            return b.SINGLE  # sums become f32
        return ARITHMETIC[compute.data]

    @staticmethod
    def _is_wide(type: Attribute) -> bool:
        return dtype_name(Shaped.of(type).element_type) == "f32"

    def dequantized(self, weights: Any, wide: Attribute, zeros: Sequence[Any]) -> Any:
        """Return scaled weights, which kernels round, or products of weights without scales.

        Weights less zeros that are no integers are rounded before that, too.
        """
        xp = self.bounded.plain.xp
        exact = all(bool((z.value == xp.round(z.value)).all()) for z in zeros)
        relative = UNEVEN[dtype_name(wide)] * (1 if exact else 2)
        return self.bounded.with_error(weights.value, [weights.error], relative)

    def narrowed(self, value: Any, type: Any) -> Any:
        """Return weights that attention multiplies by: kernels round multiples of them, as they go."""
        relative = UNEVEN.get(dtype_name(Shaped.of(type).element_type), 0.0)
        return self.bounded.with_error(value.value, [value.error], relative * self.roundings)

    @impl(AttentionGradientOp)
    def gradient(self, interpreter: Interpreter, op: AttentionGradientOp, args: PythonValues) -> PythonValues:
        return (self._gradient(op, args),)

    @impl(AttentionBackwardOp)
    def backward(self, interpreter: Interpreter, op: AttentionBackwardOp, args: PythonValues) -> PythonValues:
        return (self._gradient(op, args),)

    def _gradient(self, op: Operation, args: PythonValues) -> Any:
        """Interpret a gradient of attention: weights may be rounded before their changes are."""
        self.roundings = 2
        try:
            return MEANINGS[type(op)](self, op, args)
        finally:
            self.roundings = 1

    def reduced_over(self, op: ReduceOp, value: Any) -> Any:
        if Shaped.of(op.result.type).element_type != S32:
            return super().reduced_over(op, value)
        plain = self.bounded.plain

        def total(x: Any) -> Any:
            return wrapped(plain, plain.reduce(op.kind.data.value, plain.whole(x), op.axes.get_values()))

        return self.bounded.applied(total, (value,))

    @impl(AttentionOp)
    def attention(self, interpreter: Interpreter, op: AttentionOp, args: PythonValues) -> PythonValues:
        return (self._of_pages(op, args),)

    @impl(AttentionLogSumExpOp)
    def sums(self, interpreter: Interpreter, op: AttentionLogSumExpOp, args: PythonValues) -> PythonValues:
        return (self._of_pages(op, args),)

    @impl(ScoresOp)
    def scores(self, interpreter: Interpreter, op: ScoresOp, args: PythonValues) -> PythonValues:
        return (self._of_pages(op, args),)

    @impl(ScoredAttentionOp)
    def scored(self, interpreter: Interpreter, op: ScoredAttentionOp, args: PythonValues) -> PythonValues:
        return (self._of_pages(op, args),)

    def _of_pages(self, op: ScoringOp, args: PythonValues) -> Any:
        """Interpret an operation on scores of keys in pages, which a table may name more than once."""
        if op.pages is not None:
            numbers = args[list(op.operands).index(op.pages)].value.reshape(-1).tolist()
            self.bounded.repeats = len(set(numbers)) < len(numbers)
        try:
            return MEANINGS[type(op)](self, op, args)
        finally:
            self.bounded.repeats = False

    @impl(PoolOp)
    def pool(self, interpreter: Interpreter, op: PoolOp, args: PythonValues) -> PythonValues:
        """Pool: a mean's terms may be added in any order, in windows of few terms with independent errors."""
        if op.kind.data is Pooling.MAX:
            return (self._by_meaning(op, args),)
        x = args[0]

        def mean(values: Any) -> Any:
            return MEANINGS[PoolOp](self.exactly, op, (values,))

        plain, count = self.bounded.plain, math.prod(window.size for window in op.windows)
        if count > FEW:
            rows = [sum_roundoff(plain, pooled_terms(plain, op, image[None])) for image in x.value]
            own = plain.xp.concatenate(rows, 0)
        else:
            own = independent_roundoff(plain, plain.full((), float(count)))
        errors = [own * mean(plain.xp.abs(x.value))]
        errors += [] if x.error is None else [mean(x.error)]
        return (self.bounded.with_error(mean(x.value), errors, b.ROUNDING),)

    @impl(ScanOp)
    def scan(self, interpreter: Interpreter, op: ScanOp, args: PythonValues) -> PythonValues:
        if Shaped.of(op.result.type).element_type == S32:
            return (self._by_meaning(op, args),)
        return (MEANINGS[ScanOp](self, op, args),)

    @impl(RandomOp)
    def random(self, interpreter: Interpreter, op: RandomOp, args: PythonValues) -> PythonValues:
        return (self._by_meaning(op, args),)

    @impl(SortOp)
    def sort(self, interpreter: Interpreter, op: SortOp, args: PythonValues) -> PythonValues:
        """Sort: intervals keep order, but elements whose intervals meet may come from each other's places."""
        found = self._by_meaning(op, args)
        if op.positions is None or args[0].error is None:
            return (found,)
        extent = float(args[0].shape[op.axis.value.data])
        return (Bounded(self.bounded, found.value, self.bounded.plain.xp.zeros_like(found.value) + extent),)

    def _by_meaning(self, op: Operation, args: Sequence[Bounded]) -> Bounded:
        """Apply an op that does not exceed the ends of its operand's intervals."""
        return self.bounded.applied(lambda *xs: MEANINGS[type(op)](self.exactly, op, xs), args)


def _is_of_scores(op: Operation) -> bool:
    """Whether an op is in a stage of attention with scores that it computes from products."""
    block = op.parent_block()
    return block is not None and any(isinstance(other, ScoresOp) for other in block.ops)
