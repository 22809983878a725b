"""Scale products: factors of an operand's rows become factors of the product's rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.contraction import ContractionOp, MatmulOp
from mucc.dialects.mu.ops.views import ExpandOp, TransposeOp
from mucc.dialects.mu.types import Shaped
from mucc.dialects.rewriting import Emit, Pass, rewrite
from mucc.dialects.walk import postorder
from mucc.passes.product_work import is_plain
from mucc.passes.values import dims_of


def _element(value: SSAValue) -> Attribute:
    return Shaped.of(value.type).element_type


class Factor(NamedTuple):
    """A value that a matrix is multiplied with, or divided by."""

    value: SSAValue
    divides: bool

    def applied(self, emit: Emit, to: SSAValue) -> SSAValue:
        return emit(e.DivOp(to, self.value) if self.divides else e.MulOp(to, self.value))

    def is_constant(self, axis: int) -> bool:
        """Whether it is the same along an axis of the matrix, which is counted from the last one."""
        dims = dims_of(self.value)
        return len(dims) < -axis or dims[axis] == 1

    def turned(self, emit: Emit) -> Factor:
        """Return the factor of the transposed matrix."""
        match len(dims_of(self.value)):
            case 0:
                return self
            case 1:
                return self._replace(value=emit(ExpandOp(self.value, [1])))
            case _:
                return self._replace(value=emit(TransposeOp(self.value)))


class Scaled(NamedTuple):
    """An operand of a product, as a matrix and factors that do not change along the summed axis.

    With x[m, k] = a[m, k] s[m], the sum over k of x[m, k] w[k, n] is s[m] times the sum of a[m, k] w[k, n],
    since s[m] is a common factor of all terms. The same holds for w[k, n] = b[k, n] t[n], and for quotients.
    What is rounded to the operand's dtype is a instead of a s.
    """

    matrix: SSAValue
    factors: list[Factor]

    @staticmethod
    def of(emit: Emit, value: SSAValue, axis: int, made: dict[SSAValue, SSAValue]) -> Scaled | None:
        """Find such factors of a value; `axis`, -1 or -2, is the summed one.

        `made` are matrices that were multiplied by other factors, by value: all products read the same one.
        """
        base, factors = _factors(value)
        moved = [f for f in factors if f.is_constant(axis)]
        stays = [f for f in factors if f not in moved]
        if not moved:
            return None
        if not stays:
            return Scaled(base, moved) if _element(base) == _element(value) and _is_stored(base) else None
        if (known := made.get(value)) is not None:
            return Scaled(known, moved)
        if not _is_in_flight(base):
            return None
        matrix = base if _element(base) == f32 else emit(e.CastOp(base, f32))
        for factor in reversed(stays):
            matrix = factor.applied(emit, matrix)
        if _element(matrix) != _element(value):
            matrix = emit(e.RetypeOp(matrix, _element(value)))
        made[value] = matrix
        return Scaled(matrix, moved)


def _factors(value: SSAValue) -> tuple[SSAValue, list[Factor]]:
    """Return the matrix of a chain of multiplications and quotients, without casts, and what scales it.

    Factors have fewer elements than the matrix. The last one to be applied comes first.
    """
    dims, factors = dims_of(value), list[Factor]()
    while True:
        match owner := value.owner:
            case e.CastOp() | e.RetypeOp():
                value = owner.operand
            case e.MulOp() if dims_of(owner.lhs) == dims != dims_of(owner.rhs):
                factors.append(Factor(owner.rhs, divides=False))
                value = owner.lhs
            case e.MulOp() if dims_of(owner.rhs) == dims != dims_of(owner.lhs):
                factors.append(Factor(owner.lhs, divides=False))
                value = owner.rhs
            case e.DivOp() if dims_of(owner.lhs) == dims != dims_of(owner.rhs):
                factors.append(Factor(owner.rhs, divides=True))
                value = owner.lhs
            case _:
                return value, factors


def _is_stored(matrix: SSAValue) -> bool:
    """Whether a matrix is in memory: a parameter, the result of a product, or such a one turned."""
    while isinstance(view := matrix.owner, TransposeOp):
        matrix = view.operand
    return isinstance(matrix.owner, Block | ContractionOp)


def _is_in_flight(matrix: SSAValue) -> bool:
    """Whether a matrix is computed from a product of its extents, whose kernel then scales and stores it."""

    def operands(value: SSAValue) -> list[SSAValue]:
        owner = value.owner
        inputs = owner.operands if isinstance(owner, e.ElementwiseOp) else ()
        return [v for v in inputs if dims_of(v) == dims_of(matrix)]

    return any(isinstance(value.owner, MatmulOp) for value in postorder(matrix, operands))


def _is_for_products(value: SSAValue) -> bool:
    """Whether nothing but products reads a value, as it is or turned."""
    return all(
        (isinstance(user, MatmulOp) and is_plain(user))
        or (isinstance(user, TransposeOp | e.CastOp | e.RetypeOp) and _is_for_products(user.results[0]))
        for user in (use.operation for use in value.uses)
    )


def _scaled(emit: Emit, value: SSAValue, axis: int, made: dict[SSAValue, SSAValue]) -> Scaled | None:
    """Return an operand's matrix and factors, turned where the operand is."""
    view = value.owner
    is_turned = isinstance(view, TransposeOp)
    inner = view.operand if isinstance(view, TransposeOp) else value
    product = inner
    while isinstance(cast := product.owner, e.CastOp | e.RetypeOp):
        product = cast.operand
    if not isinstance(product.owner, e.MulOp | e.DivOp) or not _is_for_products(product):
        return None
    found = Scaled.of(emit, inner, -3 - axis if is_turned else axis, made)
    if found is None or not is_turned:
        return found
    factors = [factor.turned(emit) for factor in found.factors]
    return Scaled(emit(TransposeOp(found.matrix)), factors)


class _Scale(RewritePattern):
    """`(a * s) @ w` -> `(a @ w) * s`, and so for the columns of w, and for quotients."""

    def __init__(self) -> None:
        self.made: dict[SSAValue, SSAValue] = {}

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, MatmulOp) or not is_plain(op):
            return
        for index, axis in enumerate((-1, -2)):
            emit = Emit()
            if (found := _scaled(emit, op.operands[index], axis, self.made)) is None:
                emit.discard()
                continue
            lhs, rhs = (found.matrix, op.rhs) if index == 0 else (op.lhs, found.matrix)
            value = emit(MatmulOp(lhs, rhs, op.compute, op.acc))
            if _element(value) != f32:
                value = emit(e.CastOp(value, f32))
            for factor in reversed(found.factors):
                value = factor.applied(emit, value)
            if _element(value) != _element(op.result):
                value = emit(e.RetypeOp(value, _element(op.result)))
            rewriter.replace(op, emit.ops, [value])
            return


@dataclass(frozen=True)
class ScaleProducts(Pass):
    """Multiply a product's rows or columns by the factors that rows of its operands have.

    ```
    %n = mu.mul %x, %r : [M, K], [M, 1]           %p = mu.matmul %x, %w
    %y = mu.matmul %n, %w                   ->    %y = mu.mul %p, %r : [M, N], [M, 1]
    ```

    Of a norm without a weight only a reduction is left before the product, and its division runs in the
    product's epilogue: normalised rows are never stored. This requires that the matrix is in memory in the
    dtype that is multiplied, and that only products read the scaled one. A weight along the summed axis is
    multiplied before: by the kernel of another product that computes the matrix. Elsewhere it stays with the
    whole norm, which takes no longer than it. `Scaled` has the proof. Sums over unscaled rows may overflow
    where those over scaled rows do not.
    """

    name = "scale-products"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        rewrite(op, [_Scale()])
