"""Restore weights that a model dequantises by arithmetic of its own, so that products convert them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.ir import Block, Operation, SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.quantization import DequantizeOp
from mucc.dialects.mu.ops.shape import ReshapeOp
from mucc.dialects.mu.ops.views import BroadcastOp, PermuteOp, TransposeOp
from mucc.dialects.mu.rules import HALVES, WEIGHTS
from mucc.dialects.mu.types import Dim, Shaped, TensorType
from mucc.dialects.rewriting import erase_unused
from mucc.library.extents import multiply
from mucc.torch.importer.lowering import dims_of, dtype_of


def restore_weights(block: Block) -> None:
    """Restore `dequantize` in the operands of products.

    ```
    x @ reshape((cast(reshape(w, (N, G, K/G)), bf16) - z) * s, (N, K)).T    # z and s: [N, G, 1]
        -> x @ dequantize(w, s, z).T                                        # z and s: [N, G]
    x @ (cast(w, bf16) * s).T                                               # s: [N, 1]
        -> x @ dequantize(w, s).T
    x @ reshape(reshape(cast(w, bf16), (N*G, K/G)) * s, (N, K)).T           # s: [N*G, 1]
        -> x @ dequantize(w, reshape(s, (N, G))).T
    x @ reshape((reshape(cast(w, bf16).T, (G, K/G, N)) - z) * s, (K, N))    # z and s: [G, 1, N]
        -> x @ dequantize(w, reshape(s, (G, N)).T, reshape(z, (G, N)).T).T
    ```
    """
    for op in [op for op in block.ops if isinstance(op, MatmulOp)]:
        right = op.operands[1].owner
        sides = [(op, 0, False), (right, 0, False) if isinstance(right, TransposeOp) else (op, 1, True)]
        for reader, place, turned in sides:
            weights = reader.operands[place]
            if (found := _Weights.of(weights, turned)) is None or not isinstance(weights.owner, Operation):
                continue
            restored = found.dequantised()
            if dims_of(restored) != dims_of(weights) or dtype_of(restored) != dtype_of(weights):
                continue
            block.insert_ops_before(found.new, weights.owner)
            reader.operands[place] = restored
            erase_unused(weights.owner)


class _Shared(NamedTuple):
    """What groups of columns share, of each row, and the number of groups in a row."""

    value: SSAValue
    groups: int


@dataclass
class _Weights:
    """A matrix `[N, K]` of narrow weights, with what is subtracted from groups of columns, and their scales.

    With `turned`, the value was `[K, N]`, and so are scales and zeros. `new` are operations that are made.
    """

    dims: Sequence[Dim]
    matrix: SSAValue
    scales: _Shared
    zeros: _Shared | None
    turned: bool
    new: list[Operation] = field(default_factory=list[Operation])

    @staticmethod
    def of(value: SSAValue, turned: bool) -> _Weights | None:
        """Return the parts of dequantised weights of 16 bits, `[N, K]` or turned; None of any other value."""
        dims, product = dims_of(value)[:: -1 if turned else 1], _reshaped(value)
        if len(dims) != 2 or Shaped.of(value.type).element_type not in HALVES:
            return None
        groups = _groups_above if turned else _groups
        for scaled, factor in _sides(product.owner):
            scales = groups(factor, dims, dims_of(product))
            difference = _reshaped(scaled)
            zeros: _Shared | None = None
            if isinstance(op := difference.owner, e.SubOp):
                scaled = op.operands[0]
                if (zeros := groups(op.operands[1], dims, dims_of(difference))) is None:
                    continue
            if scales is None or (matrix := _narrow(scaled, turned)) is None:
                continue
            made = _Weights(dims, matrix, scales, zeros, turned)
            if made._fits():
                return made
        return None

    def _fits(self) -> bool:
        """Whether weights, scales and zeros agree, once they are matrices."""
        (rows, columns), count = self.dims, self.scales.groups
        if multiply(dims_of(self.matrix)) != multiply([rows, columns]) or not isinstance(columns, int):
            return False
        if self.turned and dims_of(self.matrix) != tuple(self.dims):
            return False
        return columns % count == 0 and (self.zeros is None or self.zeros.groups == count)

    def dequantised(self) -> SSAValue:
        """Make the weights; all operations are in `new`."""
        operands = [self._as(self.matrix, self.dims)]
        for shared in (self.scales, *([] if self.zeros is None else [self.zeros])):
            dims = self.dims[0], shared.groups
            value = self._as(shared.value, dims[:: -1 if self.turned else 1])
            operands.append(self._turned(value))
        self.new.append(made := DequantizeOp(*operands))
        return self._turned(made.result)

    def _as(self, value: SSAValue, dims: Sequence[Dim]) -> SSAValue:
        if dims_of(value) == tuple(dims):
            return value
        self.new.append(view := ReshapeOp(value, tuple(dims)))
        return view.results[0]

    def _turned(self, value: SSAValue) -> SSAValue:
        if not self.turned:
            return value
        self.new.append(view := TransposeOp(value))
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


def _narrow(value: SSAValue, turned: bool) -> SSAValue | None:
    """Return weights of 4 or 8 bits, row after row in memory, that a value is the conversion of.

    With `turned`, columns of the value are rows of the weights.
    """
    value = _reshaped(value)
    if turned:
        view = value.owner
        if not isinstance(view, TransposeOp | PermuteOp) or len(dims_of(value)) != 2:
            return None
        value = view.operand
    cast = value.owner
    if not isinstance(cast, e.CastOp):
        return None
    weights = _reshaped(cast.operands[0])
    type = weights.type
    is_plain = isinstance(type, TensorType) and type.layout.is_row_major
    return weights if is_plain and Shaped.of(type).element_type in WEIGHTS else None


def _groups(value: SSAValue, dims: Sequence[Dim], whole: Sequence[Dim]) -> _Shared | None:
    """Return what groups of columns of a matrix `dims` share, `[N, G, 1]` or `[N*G, 1]`, or rows, `[N, 1]`.

    `whole` are the extents of the operation that reads the value: `dims`, `[N, G, K/G]` or `[N*G, K/G]`.
    """
    (rows, columns), shape = dims, tuple(dims_of(value))
    if len(whole) == 3 and shape == (rows, whole[1], 1) and whole[0] == rows:
        return _shared(value, whole[1])
    if tuple(whole) == tuple(dims) and shape == (rows, 1):
        return _shared(value, 1)
    if tuple(whole) != tuple(dims):
        group = whole[-1]
        if not isinstance(columns, int) or not isinstance(group, int) or len(whole) != 2:
            return None
        if shape != (whole[0], 1) or not group or columns % group:
            return None
        count = columns // group
        return _shared(value, count) if multiply([rows, count]) == whole[0] else None
    repeated = _reshaped(value).owner
    if shape == tuple(dims) and isinstance(repeated, BroadcastOp):
        inner = dims_of(repeated.operand)
        is_shared = (
            len(inner) == 3 == len(dims_of(repeated.results[0])) and inner[0] == rows and inner[2] == 1
        )
        is_shared = is_shared and dims_of(repeated.results[0])[:2] == inner[:2]
        return _shared(repeated.operand, inner[1]) if is_shared else None
    return None


def _groups_above(value: SSAValue, dims: Sequence[Dim], whole: Sequence[Dim]) -> _Shared | None:
    """Return what groups of columns of a matrix share that lies as `[K, N]`: `[G, 1, N]`, or `[1, N]`.

    `whole` are the extents of the operation that reads the value: `[G, K/G, N]` or `[K, N]`.
    """
    rows, shape = dims[0], tuple(dims_of(value))
    if len(whole) == 3 and shape == (whole[0], 1, rows) and whole[2] == rows:
        return _shared(value, whole[0])
    return _shared(value, 1) if tuple(whole) == tuple(dims[::-1]) and shape == (1, rows) else None


def _shared(value: SSAValue, count: Dim) -> _Shared | None:
    return _Shared(value, count) if isinstance(count, int) and count else None
