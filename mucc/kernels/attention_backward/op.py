"""`cutlass.attention_backward`: the op of a kernel for gradients of attention, and its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import Float32Type, StringAttr, UnitAttr, f32
from xdsl.ir import Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.cutlass.attributes import dims_attr
from mucc.dialects.cutlass.nodes import READS, StoreNode, ValueNode
from mucc.dialects.cutlass.ops import SpaceKernelOp
from mucc.dialects.mu.ops.attention import Wanted, WantedAttr
from mucc.dialects.mu.types import Dim, TensorType
from mucc.kernels.attention.op import ScoreOp, labels_of


@irdl_op_definition
class DifferentiateOp(ValueNode):
    """The gradients of scores, which `cutlass.store_gradient` multiplies with queries and keys.

    `gradient` is that of attention's result, `logsumexp` that of the scores of each row, and `sums` are those
    of `gradient` times result. With `causal` row i has columns 0 to i; `first` and `last` are the bits of
    the first and the last column of a row, and `labels` those of a row and a column, as of `cutlass.attend`.
    """

    name = "cutlass.differentiate"

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    causal = opt_prop_def(UnitAttr)
    score = operand_def(Float32Type)
    gradient = operand_def(TensorType)
    query = operand_def(TensorType)
    key = operand_def(TensorType)
    value = operand_def(TensorType)
    logsumexp = operand_def(TensorType)
    sums = operand_def(TensorType)
    first = opt_operand_def(Float32Type)
    last = opt_operand_def(Float32Type)
    row_label = opt_operand_def(Float32Type)
    column_label = opt_operand_def(Float32Type)

    FORMAT: ClassVar[str] = (
        "$score `of` $gradient `,` $query `,` $key `,` $value `,` $logsumexp `,` $sums (`causal` $causal^)? "
        "(`first` $first^)? (`last` $last^)? (`labels` $row_label^ `,` $column_label)? attr-dict "
        "`:` type($gradient) `,` type($query) `,` type($key) `,` type($value) `,` type($logsumexp) `,` "
        "type($sums)"
    )

    def __init__(
        self,
        score: SSAValue,
        tensors: Sequence[SSAValue],
        causal: bool,
        first: SSAValue | None = None,
        last: SSAValue | None = None,
        labels: tuple[SSAValue, SSAValue] | None = None,
    ):
        super().__init__(
            operands=[score, *tensors, first, last, *(labels or (None, None))],
            result_types=[f32],
            properties={"causal": UnitAttr() if causal else None},
        )

    @property
    def holds_bits(self) -> bool:
        return False

    @property
    def labels(self) -> tuple[SSAValue, SSAValue] | None:
        """The labels of a row and of a column, where rows see columns with their own only."""
        return labels_of(self)


@irdl_op_definition
class StoreGradientOp(StoreNode):
    """Store the gradient of attention's queries, keys or values."""

    name = "cutlass.store_gradient"

    of = prop_def(WantedAttr)

    FORMAT: ClassVar[str] = "$of $value `,` $destination attr-dict `:` type($destination)"

    def __init__(self, of: Wanted, value: SSAValue, destination: SSAValue):
        IRDLOperation.__init__(self, operands=[value, destination], properties={"of": WantedAttr(of)})


@irdl_op_definition
class AttentionBackwardKernelOp(SpaceKernelOp):
    """Gradients of attention over `space`, the extents of the scores: leading axes, queries, keys.

    Keys and values have extent 1 along leading axes along which queries share them.
    """

    name = "cutlass.attention_backward"

    FORMAT: ClassVar[str] = "$stage `space` $space $body attr-dict"

    def __init__(self, stage: str, space: Sequence[Dim], body: Region):
        super().__init__(properties={"stage": StringAttr(stage), "space": dims_attr(space)}, regions=[body])

    @property
    def score(self) -> ScoreOp:
        """The node of the products of queries and keys."""
        return next(op for op in self.nodes if isinstance(op, ScoreOp))

    @property
    def differentiate(self) -> DifferentiateOp:
        """The node of the gradients of scores."""
        return next(op for op in self.nodes if isinstance(op, DifferentiateOp))

    def destination(self, of: Wanted) -> SSAValue | None:
        """Return where a gradient is stored; None if it is not."""
        stores = (op for op in self.stores if isinstance(op, StoreGradientOp))
        return next((op.destination for op in stores if op.of.data is of), None)

    def verify_(self) -> None:
        self.verify_nodes((*READS, ScoreOp, DifferentiateOp, StoreGradientOp))
        for kind in (ScoreOp, DifferentiateOp):
            if (count := sum(isinstance(op, kind) for op in self.nodes)) != 1:
                raise VerifyException(f"a {self.name} has one {kind.name}, not {count}")
        product, node = self.score, self.differentiate
        if (product.query, product.key) != (node.query, node.key):
            raise VerifyException(f"scores of a {self.name} are those of its queries and keys")
