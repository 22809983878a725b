"""Restore weights that a model dequantises by arithmetic of its own, so that products convert them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.quantization import DequantizeOp
from mucc.dialects.mu.ops.shape import ReshapeOp
from mucc.dialects.mu.ops.views import BroadcastOp, TransposeOp
from mucc.dialects.mu.rules import HALVES, WEIGHTS
from mucc.dialects.mu.types import Dim, Shaped, TensorType
from mucc.dialects.rewriting import erase_unused
from mucc.library.extents import multiply
from mucc.torch.importer.lowering import dims_of


def restore_weights(block: Block) -> None:
    """Restore `dequantize` in the operands of products.

    ```
    x @ reshape((cast(reshape(w, (N, G, K/G)), bf16) - z) * s, (N, K)).T    # z and s: [N, G, 1]
        -> x @ dequantize(w, s, z).T                                        # z and s: [N, G]
    x @ (cast(w, bf16) * s).T                                               # s: [N, 1]
        -> x @ dequantize(w, s).T
    ```
    """
    for op in [op for op in block.ops if isinstance(op, MatmulOp)]:
        right = op.operands[1].owner
        for weights in (op.operands[0], *([right.operand] if isinstance(right, TransposeOp) else [])):
            if (found := _Weights.of(weights)) is None:
                continue
            restored = found.dequantised()
            if restored.results[0].type != weights.type or not isinstance(maker := weights.owner, Operation):
                continue
            block.insert_ops_before([*found.new, restored], maker)
            weights.replace_all_uses_with(restored.results[0])
            erase_unused(maker)


@dataclass
class _Weights:
    """A matrix of narrow weights, with what is subtracted from groups of columns, and their scales.

    `new` are operations that were made to have them in the shapes of `dequantize`.
    """

    dims: Sequence[Dim]
    matrix: SSAValue
    scales: SSAValue
    zeros: SSAValue | None = None
    new: list[Operation] = field(default_factory=list[Operation])

    @staticmethod
    def of(value: SSAValue) -> _Weights | None:
        """Return the parts of dequantised weights `[N, K]` of 16 bits; None of any other value."""
        dims, product = dims_of(value), _reshaped(value)
        if len(dims) != 2 or Shaped.of(value.type).element_type not in HALVES:
            return None
        for scaled, factor in _sides(product.owner):
            scales = _groups(factor, dims, dims_of(product))
            difference = _reshaped(scaled)
            zeros: SSAValue | None = None
            if isinstance(op := difference.owner, e.SubOp):
                scaled = op.operands[0]
                if (zeros := _groups(op.operands[1], dims, dims_of(difference))) is None:
                    continue
            if scales is None or (matrix := _narrow(scaled)) is None:
                continue
            made = _Weights(dims, matrix, scales, zeros)
            if made._fits():
                return made
        return None

    def _fits(self) -> bool:
        """Whether weights, scales and zeros agree, once they are matrices."""
        (rows, columns), count = self.dims, dims_of(self.scales)[1]
        if multiply(dims_of(self.matrix)) != multiply([rows, columns]) or not isinstance(columns, int):
            return False
        if not isinstance(count, int) or columns % count:
            return False
        return self.zeros is None or dims_of(self.zeros)[1] == count

    def dequantised(self) -> Operation:
        """Make the operation; what it reads is in `new`."""
        operands = [self._as(self.matrix, self.dims)]
        for value in (self.scales, *([] if self.zeros is None else [self.zeros])):
            operands.append(self._as(value, dims_of(value)[:2]))
        return DequantizeOp(*operands)

    def _as(self, value: SSAValue, dims: Sequence[Dim]) -> SSAValue:
        if dims_of(value) == tuple(dims):
            return value
        self.new.append(view := ReshapeOp(value, tuple(dims)))
        return view.results[0]


def _sides(op: object) -> list[tuple[SSAValue, SSAValue]]:
    """Return the operands of a product of numbers in both orders."""
    if not isinstance(op, e.MulOp):
        return []
    return [(op.operands[0], op.operands[1]), (op.operands[1], op.operands[0])]


def _reshaped(value: SSAValue) -> SSAValue:
    """Return the value behind reshapes, which keep the order of elements."""
    while isinstance(op := value.owner, ReshapeOp):
        value = op.operands[0]
    return value


def _narrow(value: SSAValue) -> SSAValue | None:
    """Return weights of 4 or 8 bits, row after row in memory, that a value is the conversion of."""
    cast = _reshaped(value).owner
    if not isinstance(cast, e.CastOp):
        return None
    weights = _reshaped(cast.operands[0])
    type = weights.type
    is_plain = isinstance(type, TensorType) and type.layout.is_row_major
    return weights if is_plain and Shaped.of(type).element_type in WEIGHTS else None


def _groups(value: SSAValue, dims: Sequence[Dim], whole: Sequence[Dim]) -> SSAValue | None:
    """Return what groups of columns of a matrix `dims` share, `[N, G, 1]`, or what rows do, `[N, 1]`.

    `whole` are the extents of the operation that reads the value: `dims`, or `[N, G, K/G]`.
    """
    rows, shape = dims[0], dims_of(value)
    if len(whole) == 3 and tuple(shape) == (rows, whole[1], 1) and whole[0] == rows:
        return value
    if tuple(whole) != tuple(dims):
        return None
    if tuple(shape) == (rows, 1):
        return value
    repeated = _reshaped(value).owner
    if tuple(shape) == tuple(dims) and isinstance(repeated, BroadcastOp):
        inner = dims_of(repeated.operand)
        is_shared = (
            len(inner) == 3 == len(dims_of(repeated.results[0])) and inner[0] == rows and inner[2] == 1
        )
        return repeated.operand if is_shared and dims_of(repeated.results[0])[:2] == inner[:2] else None
    return None
