"""Rewrite composite operations into primitive ones.

After this pass only primitives are left, so that everything behind it (fusion, operation counts,
code generation) knows a small set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.activations import SELU_ALPHA, SELU_SCALE
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.views import TransposeOp
from mucc.dialects.mu.types import Shaped
from mucc.dialects.rewriting import Emit, Pass, rewrite
from mucc.kernels.registry import claimant
from mucc.passes.check_lowering import lowers
from mucc.passes.levels import COMPOSITE
from mucc.passes.pick_operands import PickOperands
from mucc.target import DEFAULT_TARGET


def _elu(b: Emit, x: SSAValue, alpha: float) -> SSAValue:
    # expm1 sees only x <= 0, so that the unused branch cannot overflow.
    zero = b.number(0.0)
    grown = b(e.Expm1Op(b(e.MinOp(x, zero))))
    return b(e.SelectOp(b(e.CmpOp("gt", x, zero)), x, b(e.MulOp(grown, b.number(alpha)))))


def _clip(b: Emit, x: SSAValue, lo: SSAValue, hi: SSAValue) -> SSAValue:
    return b(e.MinOp(b(e.MaxOp(x, lo)), hi))


def _hardsigmoid(b: Emit, x: SSAValue) -> SSAValue:
    line = b(e.AddOp(b(e.MulOp(x, b.number(1 / 6))), b.number(0.5)))
    return _clip(b, line, b.number(0.0), b.number(1.0))


def _leaky_relu(b: Emit, op: e.LeakyReluOp) -> SSAValue:
    scaled = b(e.MulOp(op.operand, b.number(op.slope.value.data)))
    return b(e.SelectOp(b(e.CmpOp("gt", op.operand, b.number(0.0))), op.operand, scaled))


def _hardtanh(b: Emit, op: e.HardtanhOp) -> SSAValue:
    return _clip(b, op.operand, b.number(op.lo.value.data), b.number(op.hi.value.data))


def _softsign(b: Emit, x: SSAValue) -> SSAValue:
    return b(e.DivOp(x, b(e.AddOp(b(e.AbsOp(x)), b.number(1.0)))))


EXPANSIONS: dict[type[e.ElementwiseOp], Callable[[Emit, Any], SSAValue]] = {
    e.ReluOp: lambda b, op: b(e.MaxOp(op.operands[0], b.number(0.0))),
    e.LeakyReluOp: _leaky_relu,
    e.EluOp: lambda b, op: _elu(b, op.operands[0], op.alpha.value.data),
    e.SeluOp: lambda b, op: b(e.MulOp(_elu(b, op.operands[0], SELU_ALPHA), b.number(SELU_SCALE))),
    e.SiluOp: lambda b, op: b(e.MulOp(op.operands[0], b(e.SigmoidOp(op.operands[0])))),
    e.SoftsignOp: lambda b, op: _softsign(b, op.operands[0]),
    e.MishOp: lambda b, op: b(e.MulOp(op.operands[0], b(e.TanhOp(b(e.SoftplusOp(op.operands[0])))))),
    e.HardsigmoidOp: lambda b, op: _hardsigmoid(b, op.operands[0]),
    e.HardswishOp: lambda b, op: b(e.MulOp(op.operands[0], _hardsigmoid(b, op.operands[0]))),
    e.HardtanhOp: _hardtanh,
    e.ClampOp: lambda b, op: _clip(b, *op.operands),
}
"""For each operation that others express, what builds these from an operation of that class."""


class Expand(RewritePattern):
    """For example `relu(x)` -> `max(x, 0)`, `silu(x)` -> `x * sigmoid(x)`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, e.ElementwiseOp) or (expansion := EXPANSIONS.get(type(op))) is None:
            return
        emit = Emit()
        if not op.computes_integers and any(Shaped.of(v.type).element_type == S32 for v in op.operands):
            # Functions of floats take integers as such.
            is_integer = [Shaped.of(v.type).element_type == S32 for v in op.operands]
            values = zip(op.operands, is_integer, strict=True)
            op.operands = [emit(e.CastOp(v, f32)) if whole else v for v, whole in values]
            rewriter.insert(emit.ops)
            emit = Emit()
        result = expansion(emit, op)
        rewriter.replace(op, emit.ops, [result])


class MixedProduct(RewritePattern):
    """`x @ transpose(w)` of bf16 and s8 -> `x @ transpose(cast(w))`: operands are multiplied at one size.

    But for those that the kernel converts itself.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, MatmulOp) or op.mixed is not None:
            return
        wide = Shaped.of(op.result.type).element_type
        for index, (value, other) in enumerate(((op.lhs, op.rhs), (op.rhs, op.lhs))):
            element = Shaped.of(value.type).element_type
            if element == wide or Shaped.of(other.type).element_type != wide:
                continue
            is_view = isinstance(view := value.owner, TransposeOp)
            cast = e.CastOp(view.operand if isinstance(view, TransposeOp) else value, wide)
            new = [cast, TransposeOp(cast)] if is_view else [cast]
            rewriter.insert(new)
            operands = [op.lhs, op.rhs]
            operands[index] = new[-1].results[0]
            rewriter.replace(op, MatmulOp(operands[0], operands[1], op.compute))
            return


@dataclass(frozen=True)
class Unclaimed(RewritePattern):
    """The first of some patterns that matches an operation, unless a kind of kernel claims it on a target."""

    patterns: Sequence[RewritePattern]
    target: str

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if isinstance(op, AnchorOp) and claimant(op, self.target) is not None:
            return
        for pattern in self.patterns:
            pattern.match_and_rewrite(op, rewriter)
            if rewriter.has_done_action:
                return


@dataclass(frozen=True)
class Decompose(Pass):
    """Rewrite composite operations that no kind of kernel claims on the target into primitive ones.

    What is left of them is computed for the elements alone that `take_along` picks.
    """

    name = "decompose"

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        composites = Unclaimed(_composites(op, self.target), self.target)
        rewrite(op, [Expand(), MixedProduct(), composites, PickOperands(self.target)])


def _composites(module: ModuleOp, target: str) -> Sequence[RewritePattern]:
    """Return the patterns for operations on whole tensors; few programs need them, so loading is lazy."""
    kernels = (kernel for kernel in module.body.block.ops if isinstance(kernel, KernelOp))
    inner = (op for kernel in kernels for op in kernel.body.block.ops)
    if not any(isinstance(op, COMPOSITE) or not lowers(op, target) for op in inner):
        return ()
    from mucc.passes.composites import COMPOSITES
    from mucc.passes.index_maps import index_maps
    from mucc.passes.reshapes import Reshape

    return (*COMPOSITES, Reshape(target), *index_maps(target))
