"""`cutlass.gemm`: the op of a contraction kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import lcm
from typing import ClassVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    i64,
)
from xdsl.ir import Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.cutlass.nodes import InsideOp
from mucc.dialects.cutlass.ops import DeviceKernelOp, ProgramOp
from mucc.dialects.cutlass.views import View, view_of
from mucc.dialects.mu.ops.contraction import AccumulationAttr, Compute, ComputeAttr
from mucc.dialects.mu.rules import is_sparse, narrow_side
from mucc.dialects.mu.scale_rules import block_scales, group_scales
from mucc.dialects.mu.schedule_attributes import (
    ClusterAttr,
    EpilogueTileAttr,
    Mainloop,
    MainloopAttr,
    SchedulerAttr,
    SchedulerKind,
    Switch,
    SwitchAttr,
    TileAttr,
)
from mucc.dialects.mu.types import Dims, Shaped, TensorType, dtype_bits
from mucc.kernels.gemm.nodes import (
    NODES,
    AccFetchOp,
    AuxLoadOp,
    GroupReduceOp,
    MatrixStore,
    ScatterDOp,
    SrcFetchOp,
    StoreDOp,
)
from mucc.kernels.gemm.scheduling.operand import (
    DENSE,
    Form,
    Gathered,
    Grouped,
    Narrow,
    Scaled,
    Sparse,
)
from mucc.kernels.gemm.shape import GemmShapeAttr
from mucc.kernels.map.nodes import PARTS


@irdl_op_definition
class GemmOp(DeviceKernelOp):
    """The kernel of a contraction: a mainloop over A and B, the graph of its epilogue in the body.

    The schedule properties are optional until select-schedule has run, and all present after it, but for
    switches: those that are not there are off.
    `a` is [.., M, K] and `b` is [.., K, N] as views; their layouts say what is contiguous.
    `granules` says by how many bytes each of the `matrices` may be accessed; without it TMA copies them,
    by 16.
    Rows of `a` may be those that an index names, a `mu.gather`.
    Leading axes of A may be taken as rows (`shape.m` has several factors).
    A pair has a second right operand `b2`, which lies in memory as `b` does; each element of the tile then
    has two accumulators.
    With `offsets`, the ends of groups of rows, `b` is [groups, K, N] and each group has a matrix of it.
    `scales` are those of blocks of 8-bit operands or, where one operand is narrow, of groups of it along K,
    then zeros.
    Where `prepared` operands are given, the kernel reads those in the place of `a` and `b`: what kernels
    before it have written. Of `tf32x3` they are [.., M, 3, K] and [.., N, 3, K], the parts to multiply.
    """

    name = "cutlass.gemm"

    compute = prop_def(ComputeAttr)
    acc = opt_prop_def(AccumulationAttr)
    shape = prop_def(GemmShapeAttr)
    tile = opt_prop_def(TileAttr)
    cluster = opt_prop_def(ClusterAttr)
    mainloop = opt_prop_def(MainloopAttr)
    stages = opt_prop_def(IntegerAttr)
    scheduler = opt_prop_def(SchedulerAttr)
    granules = opt_prop_def(DenseArrayBase.constr(i64))
    exchange = opt_prop_def(SwitchAttr)
    epilogue = opt_prop_def(EpilogueTileAttr)
    pdl = opt_prop_def(SwitchAttr)
    reproducible = opt_prop_def(SwitchAttr)
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    b2 = opt_operand_def(TensorType)
    offsets = opt_operand_def(TensorType)
    scales = var_operand_def(TensorType)
    prepared = var_operand_def(TensorType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    FORMAT: ClassVar[str] = (
        "$stage $compute (`acc` $acc^)? $a `,` $b (`,` $b2^)? "
        "(`offsets` $offsets^ `:` type($offsets))? (`scales` $scales^)? "
        "(`prepared` $prepared^)? `shape` $shape "
        "(`tile` $tile^)? (`cluster` $cluster^)? "
        "(`mainloop` $mainloop^)? (`stages` $stages^)? (`scheduler` $scheduler^)? "
        "(`granules` $granules^)? "
        "(`exchange` $exchange^)? (`epilogue` $epilogue^)? (`pdl` $pdl^)? "
        "(`reproducible` $reproducible^)? attr-dict "
        "`:` type($a) `,` type($b) (`,` type($b2)^)? (`scales` type($scales)^)? "
        "(`prepared` type($prepared)^)? $body"
    )

    def __init__(
        self,
        stage: str,
        compute: ComputeAttr,
        a: SSAValue,
        b: SSAValue,
        shape: GemmShapeAttr,
        body: Region,
        b2: SSAValue | None = None,
        offsets: SSAValue | None = None,
        scales: Sequence[SSAValue] = (),
    ):
        super().__init__(
            operands=[a, b, b2, offsets, scales, []],
            properties={"stage": StringAttr(stage), "compute": compute, "shape": shape},
            regions=[body],
        )

    def reading(self, operands: Sequence[SSAValue]) -> GemmOp:
        """Return the op with prepared operands; the body moves from this op to that one."""
        properties = {k: v for k, v in self.properties.items() if k != "operandSegmentSizes"}
        made = GemmOp.build(
            operands=[self.a, self.b, self.b2, self.offsets, self.scales, operands],
            properties=properties,
            regions=[self.detach_region(0)],
        )
        made.location = self.location
        return made

    @property
    def matrices(self) -> Iterator[tuple[SSAValue, Operation]]:
        """The matrices that the kernel reads or writes, each with the op to blame: A, B, those of nodes."""
        for operand in self.read:
            yield operand, self
        for op in self.nodes:
            if isinstance(op, SrcFetchOp | AuxLoadOp):
                yield op.source, op
            elif isinstance(op, MatrixStore | ScatterDOp):
                yield op.destination, op

    @property
    def operands_given(self) -> tuple[SSAValue, ...]:
        """A, B, and where there is one the second right operand, as the problem has them."""
        return (self.a, self.b) if self.b2 is None else (self.a, self.b, self.b2)

    @property
    def read(self) -> tuple[SSAValue, ...]:
        """The same as the kernel reads them: what was prepared of them, where something was."""
        return tuple(self.prepared) or self.operands_given

    @property
    def forms(self) -> tuple[Form, Form]:
        """What A and B are as operands of the product."""
        return self._form(0), self._form(1)

    def _form(self, side: int) -> Form:
        type = self.operands_given[side].type
        if is_sparse(type):
            return Sparse()
        if side == self.narrow:
            return Narrow(dtype_bits(Shaped.of(type).element_type), self.group, len(self.scales) == 2)
        if (blocks := self.blocks) is not None:
            return Scaled(blocks[side])
        if side == 0 and self.picked is not None:
            return Gathered()
        return Grouped() if side == 1 and self.is_grouped else DENSE

    @property
    def picked(self) -> View | None:
        """A as a view of the rows that an index names; None where its rows lie one after the other."""
        view = view_of(self.a)
        return view if view.rows is not None else None

    @property
    def picks(self) -> bool:
        """Whether the kernel itself picks rows of A; else they are copied before it."""
        return view_of(self.read[0]).rows is not None

    @property
    def parts(self) -> int:
        """How many parts of each number the operands hold, side by side along K."""
        return len(PARTS[0]) if self.prepared and self.compute.data is Compute.TF32X3 else 1

    @property
    def blocks(self) -> tuple[int, int] | None:
        """How many rows of A and columns of B share a scale, None where there are no block scales."""
        if not self.scales or self.narrow is not None:
            return None
        return block_scales(self.a.type, self.b.type, [s.type for s in self.scales])

    @property
    def narrow(self) -> int | None:
        """Which operand, 0 or 1, is of 4 or 8 bits and converted by the kernel to the other's format."""
        return narrow_side(self.a.type, self.b.type)

    @property
    def group(self) -> int:
        """How many elements along K share a scale of the narrow operand; 0 where it has none."""
        if self.narrow is None or not self.scales:
            return 0
        return group_scales(self.a.type, self.b.type, [s.type for s in self.scales])

    @property
    def is_exchanged(self) -> bool:
        """Whether the kernel computes the transposed result, with the operands' roles exchanged."""
        return self.exchange is not None and self.exchange.data is Switch.ON

    @property
    def is_sparse(self) -> bool:
        """Whether an operand is a matrix with the 2:4 pattern, of which half is in memory."""
        return is_sparse(self.a.type) or is_sparse(self.b.type)

    @property
    def is_grouped(self) -> bool:
        """Whether the GEMM is grouped: each group of rows of A is multiplied by a B of its own."""
        return self.offsets is not None

    @property
    def groups(self) -> Dims:
        """The extent that counts the groups; none where the contraction is not grouped."""
        return Shaped.of(self.offsets.type).dims if self.offsets is not None else ()

    @property
    def is_dependent(self) -> bool:
        """Whether the kernel starts while the one before it still runs."""
        return self.pdl is not None and self.pdl.data is Switch.ON

    @property
    def needs_scratch(self) -> bool:
        """Whether blocks share output tiles through the workspace, as those of a skinny kernel never do."""
        if self.mainloop is None or self.scheduler is None or self.mainloop.data is Mainloop.SKINNY:
            return False
        return self.scheduler.kind.data != SchedulerKind.PERSISTENT

    @property
    def destination(self) -> StoreDOp | ScatterDOp | None:
        """The node that stores the main result, D."""
        return next((op for op in self.nodes if isinstance(op, StoreDOp | ScatterDOp)), None)

    @property
    def ranges(self) -> tuple[MatrixStore, ...]:
        """The stores of ranges of columns, which are all stores then; none where columns are stored whole."""
        stores = (op for op in self.nodes if isinstance(op, MatrixStore))
        return tuple(op for op in stores if op.columns is not None)

    @property
    def group_columns(self) -> int:
        """The columns that an epilogue computes together, as it reduces groups of them; 0 if it does not."""
        widths = [op.width.value.data for op in self.nodes if isinstance(op, GroupReduceOp)]
        return lcm(*widths) if widths else 0

    @property
    def source(self) -> SrcFetchOp | None:
        """The node that loads C."""
        return next((op for op in self.nodes if isinstance(op, SrcFetchOp)), None)

    @property
    def is_pair(self) -> bool:
        """Whether the kernel multiplies with two right operands."""
        return self.b2 is not None

    @property
    def may_be_listed(self) -> bool:
        """Whether a kernel could compute the products of all problems that a call lists, in one launch.

        That is so for plain contractions which are all that their program launches.
        """
        program = self.parent_op()
        if not isinstance(program, ProgramOp) or not program.is_each:
            return False
        is_plain = self.forms == (DENSE, DENSE) and self.parts == 1 and not self.shape.extents[3]
        is_plain = is_plain and not self.ranges and not self.group_columns
        if not is_plain or len(list(program.kernels)) != 1:
            return False
        return self.compute.data not in (Compute.S8, Compute.U8) or len(self.stores) == 1

    @property
    def is_listed(self) -> bool:
        """Whether the kernel that was chosen computes all problems of a call in one launch."""
        if self.mainloop is None or self.scheduler is None or self.tile is None:
            return False
        return (
            self.may_be_listed
            and self.mainloop.data is Mainloop.COOPERATIVE
            and self.scheduler.kind.data == SchedulerKind.PERSISTENT
            and not (self.is_exchanged or self.is_dependent or self.epilogue)
            and self.tile.sizes[1] % 16 == 0
        )

    def verify_(self) -> None:
        for kind in (StoreDOp, ScatterDOp, SrcFetchOp):
            if sum(isinstance(op, kind) for op in self.nodes) > 1:
                raise VerifyException(f"more than one {kind.name} in an epilogue")
        fetched = [op.second is not None for op in self.nodes if isinstance(op, AccFetchOp)]
        if len(fetched) > len(set(fetched)):
            raise VerifyException(f"more than one {AccFetchOp.name} of an accumulator in an epilogue")
        if self.b2 is None and True in fetched:
            raise VerifyException("a second accumulator without a second right operand")
        if self.prepared and len(self.prepared) != len(self.operands_given):
            raise VerifyException("all operands are prepared together")
        if self.b2 is not None and self.b2.type != self.b.type:
            raise VerifyException(f"right operands of a pair are {self.b.type} and {self.b2.type}")
        if any(isinstance(op, ScatterDOp) for op in self.nodes) and not self.is_grouped:
            raise VerifyException("only a grouped contraction scatters its result")
        if self.is_grouped and len(self.stores) != 1:
            raise VerifyException("a grouped contraction stores one matrix")
        self._verify_ranges()
        self.verify_nodes((*NODES, InsideOp))

    def _verify_ranges(self) -> None:
        """Verify that ranges of columns are stored of one value, in one dtype, and nothing else is."""
        if not self.ranges:
            return
        if len(self.ranges) != len(self.stores) or self.is_pair or self.is_grouped:
            raise VerifyException("a kernel that stores ranges of columns stores nothing else")
        if len({op.value for op in self.ranges}) > 1:
            raise VerifyException("ranges of columns are stored of one value")
        if len({Shaped.of(op.destination.type).element_type for op in self.ranges}) > 1:
            raise VerifyException("ranges of columns are stored in one dtype")
