"""`cutlass.attention`: the op of an attention kernel, and its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from xdsl.dialects.builtin import (
    ArrayAttr,
    Float8E4M3FNType,
    Float32Type,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    f32,
)
from xdsl.ir import Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.cutlass.attributes import dims_attr, dims_of
from mucc.dialects.cutlass.nodes import READS, StoreOp, ValueNode
from mucc.dialects.cutlass.ops import DeviceKernelOp
from mucc.dialects.mu.schedule_attributes import MainloopAttr, SchedulerAttr, TileAttr
from mucc.dialects.mu.types import Dim, Dims, Shaped, TensorType

FEW = 64
"""The most queries of kernels that divide the keys among blocks."""


class Labelled(Protocol):
    """A node whose rows may see only the columns with their label."""

    @property
    def row_label(self) -> SSAValue | None: ...
    @property
    def column_label(self) -> SSAValue | None: ...


def labels_of(node: Labelled) -> tuple[SSAValue, SSAValue] | None:
    """Return the labels of a row and of a column of a node; None where it has none."""
    if node.row_label is None or node.column_label is None:
        return None
    return node.row_label, node.column_label


@irdl_op_definition
class ScoreOp(ValueNode):
    """The score of a query and a key: `scale` times their dot product.

    Where there are `pages`, a table of s32 for each sequence, keys `[.., P, R, D]` and the kernel's values
    are pages of R rows, and column j is row j % R of the page that the table has for j / R.
    """

    name = "cutlass.score"

    scale = prop_def(FloatAttr)
    query = operand_def(TensorType)
    key = operand_def(TensorType)
    pages = opt_operand_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$query `,` $key `scale` $scale (`pages` $pages^ `:` type($pages))? attr-dict "
        "`:` type($query) `,` type($key)"
    )

    def __init__(self, query: SSAValue, key: SSAValue, scale: FloatAttr, pages: SSAValue | None = None):
        super().__init__(
            operands=[query, key, pages],
            result_types=[f32],
            properties={"scale": scale},
        )

    @property
    def page(self) -> int:
        """How many keys a page has; 0 where they do not lie in pages."""
        page = 0 if self.pages is None else Shaped.of(self.key.type).dims[-2]
        assert isinstance(page, int)
        return page

    @property
    def holds_bits(self) -> bool:
        return False


@irdl_op_definition
class ScoreSumOp(ValueNode):
    """The logarithm of the sum of the exponentials of a row's scores: those of the kernel's `cutlass.attend`.

    It is the same for all columns, and -infinity in a row without any.
    """

    name = "cutlass.score_sum"

    score = operand_def(Float32Type)

    FORMAT: ClassVar[str] = "$score attr-dict"

    def __init__(self, score: SSAValue):
        super().__init__(operands=[score], result_types=[f32])

    @property
    def holds_bits(self) -> bool:
        return False


@irdl_op_definition
class AttendOp(ValueNode):
    """The mean of the values `[.., N, E]`, weighted by the softmax of a row's scores.

    The nodes before it are over the scores `[.., M, N]`, those behind it over the results `[.., M, E]`.
    With `causal` row i has columns 0 to i. `first` and `last`, the bits of an s32 each, are the first and
    the last column of a row: the same for all columns, and for a later row no less. With `labels`, the bits
    of an s32 of the row and of one of the column, a row has the columns whose label is its own. A row without
    any column with a score above -infinity gets 0, or NaN with `nan_rows`. Without softmax scores are the
    weights, and 0 where a row does not have a column. `sink` is the score of a further column without a
    value.
    """

    name = "cutlass.attend"

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    causal = opt_prop_def(UnitAttr)
    nan_rows = opt_prop_def(UnitAttr)
    without_softmax = opt_prop_def(UnitAttr)
    score = operand_def(Float32Type)
    value = operand_def(TensorType)
    first = opt_operand_def(Float32Type)
    last = opt_operand_def(Float32Type)
    row_label = opt_operand_def(Float32Type)
    column_label = opt_operand_def(Float32Type)
    sink = opt_operand_def(Float32Type)

    FORMAT: ClassVar[str] = (
        "$score `,` $value (`causal` $causal^)? (`first` $first^)? (`last` $last^)? "
        "(`labels` $row_label^ `,` $column_label)? (`sink` $sink^)? (`nan_rows` $nan_rows^)? "
        "(`without_softmax` $without_softmax^)? attr-dict `:` type($value)"
    )

    def __init__(
        self,
        score: SSAValue,
        value: SSAValue,
        causal: bool,
        first: SSAValue | None = None,
        last: SSAValue | None = None,
        nan_rows: bool = False,
        labels: tuple[SSAValue, SSAValue] | None = None,
        softmax: bool = True,
        sink: SSAValue | None = None,
    ):
        super().__init__(
            operands=[score, value, first, last, *(labels or (None, None)), sink],
            result_types=[f32],
            properties={
                "causal": UnitAttr() if causal else None,
                "nan_rows": UnitAttr() if nan_rows else None,
                "without_softmax": None if softmax else UnitAttr(),
            },
        )

    @property
    def holds_bits(self) -> bool:
        return False

    @property
    def labels(self) -> tuple[SSAValue, SSAValue] | None:
        """The labels of a row and of a column, where rows see columns with their own only."""
        return labels_of(self)


@irdl_op_definition
class AttentionKernelOp(DeviceKernelOp):
    """Attention over `space`, the extents of the scores: leading axes, queries, keys.

    Leading axes of queries, keys and values are those of the space, or have extent 1. Settings of the
    schedule are those that are pinned or were measured; for others there is a default (`schedule.py`).
    """

    name = "cutlass.attention"

    space = prop_def(ArrayAttr[IntAttr | StringAttr])
    tile = opt_prop_def(TileAttr)
    mainloop = opt_prop_def(MainloopAttr)
    stages = opt_prop_def(IntegerAttr)
    scheduler = opt_prop_def(SchedulerAttr)

    FORMAT: ClassVar[str] = (
        "$stage `space` $space (`tile` $tile^)? (`mainloop` $mainloop^)? (`stages` $stages^)? "
        "(`scheduler` $scheduler^)? $body attr-dict"
    )

    def __init__(self, stage: str, space: Sequence[Dim], body: Region):
        super().__init__(
            properties={"stage": StringAttr(stage), "space": dims_attr(space)},
            regions=[body],
        )

    @property
    def extents(self) -> Dims:
        """The extents of the scores."""
        return dims_of(self.space)

    @property
    def results_space(self) -> Dims:
        """The extents of the results."""
        return (*self.extents[:-1], Shaped.of(self.attend.value.type).dims[-1])

    @property
    def score(self) -> ScoreOp:
        """The node of the first product."""
        return next(op for op in self.nodes if isinstance(op, ScoreOp))

    @property
    def attend(self) -> AttendOp:
        """The node of softmax and second product."""
        return next(op for op in self.nodes if isinstance(op, AttendOp))

    @property
    def score_sum(self) -> ScoreSumOp | None:
        """The node of the log-sum-exp, which is stored for each row."""
        return next((op for op in self.nodes if isinstance(op, ScoreSumOp)), None)

    @property
    def pages_in_all(self) -> Dim:
        """How many pages there are of keys and values."""
        assert self.score.pages is not None
        return Shaped.of(self.score.key.type).dims[-3]

    @property
    def may_decode(self) -> bool:
        """Whether there may be at most `FEW` queries, for which there are kernels that divide the keys."""
        rows = self.extents[-2]
        return not self.is_f32 and (not isinstance(rows, int) or rows <= FEW)

    @property
    def is_f32(self) -> bool:
        """Whether queries, keys and values are f32: multiplied as tf32, by the kernels for many queries."""
        return Shaped.of(self.score.query.type).element_type == f32

    @property
    def is_narrow(self) -> bool:
        """Whether operands are e4m3."""
        return Shaped.of(self.score.query.type).element_type == Float8E4M3FNType()

    @property
    def transposes(self) -> bool:
        """Whether kernels on wgmma read values that are transposed before: those of 8 and 32 bits."""
        return self.is_narrow or self.is_f32

    @property
    def is_causal(self) -> bool:
        return self.attend.causal is not None

    @property
    def is_ranged(self) -> bool:
        """Whether rows see some of the columns only, by their indices."""
        attend = self.attend
        limits = (attend.first, attend.last, attend.row_label)
        return self.is_causal or any(limit is not None for limit in limits)

    def verify_(self) -> None:
        self.verify_nodes((*READS, ScoreOp, ScoreSumOp, AttendOp, StoreOp))
        for kind in (ScoreOp, AttendOp):
            if (count := sum(isinstance(op, kind) for op in self.nodes)) != 1:
                raise VerifyException(f"a {self.name} has one {kind.name}, not {count}")
        if (sums := self.score_sum) is not None and sums.score is not self.attend.score:
            raise VerifyException(f"a {sums.name} has the scores of the {AttendOp.name}")
        rows, columns = self.extents[-2:]
        query, key, value = (Shaped.of(v.type) for v in (self.score.query, self.score.key, self.attend.value))
        if self.score.page:
            columns = self.score.page
        if query.dims[-2] != rows or key.dims[-2] != columns or value.dims[-2] != columns:
            raise VerifyException(f"queries {query}, keys {key} and values {value} of scores {self.extents}")
