"""The host program that launches device kernels in order, and the base of their ops."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    IntAttr,
    IntegerAttr,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import (
    attr_def,
    irdl_op_definition,
    opt_attr_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.traits import IsolatedFromAbove, NoTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.cutlass.attributes import GuardAttr, RequirementAttr, dims_attr, dims_of
from mucc.dialects.cutlass.nodes import ComputeOp, LoadNode, StoreNode
from mucc.dialects.mu.entry import EntryOp
from mucc.dialects.mu.ops.elementwise import ConstantOp
from mucc.dialects.mu.ops.pointwise import ElementwiseOp
from mucc.dialects.mu.settings import REPRODUCIBLE
from mucc.dialects.mu.syntax import FormattedOp
from mucc.dialects.mu.types import Dim, Dims, TensorType
from mucc.library.entries import Guard

if TYPE_CHECKING:
    from xdsl.parser import Parser


@irdl_op_definition
class ProgramOp(EntryOp):
    """A host entry point: arguments are parameters, then outputs; the body launches kernels in order.

    After workspace planning, `slots` has the types of the values that share each slot of the workspace.

    A kernel with several schedules is several programs, its entries: `entry_of` names the kernel, and an
    entry computes the calls whose dims are in one of its `guards`. The last entry has the kernel's name and
    no guards, and computes all others. `unstored` names the stages whose results no kernel stores, since
    another stage joined the kernel that computes them.
    """

    name = "cutlass.program"

    target = attr_def(StringAttr)
    num_inputs = attr_def(IntegerAttr)
    requirements = opt_attr_def(ArrayAttr[RequirementAttr])
    slots = opt_attr_def(ArrayAttr[ArrayAttr[TensorType]])
    entry_of = opt_attr_def(StringAttr)
    guards = opt_attr_def(ArrayAttr[GuardAttr])
    unstored = opt_attr_def(ArrayAttr[StringAttr])

    traits = traits_def(SymbolOpInterface(), IsolatedFromAbove(), NoTerminator())

    def __init__(
        self, types: Sequence[Attribute], attributes: dict[str, Attribute | None], body: Region | None
    ):
        super().__init__(
            attributes={"function_type": FunctionType.from_lists(list(types), []), **attributes},
            regions=[body if body is not None else Region(Block(arg_types=list(types)))],
        )

    @property
    def kernel_name(self) -> str:
        """The name of the kernel that the program computes; entries of a kernel share it."""
        return (self.entry_of or self.sym_name).data

    @property
    def boxes(self) -> tuple[Guard, ...]:
        """The boxes of sizes that the program computes; none where it takes what other entries leave."""
        return tuple(g.guard for g in self.guards or ())

    @property
    def unstored_stages(self) -> frozenset[str]:
        """The names of stages whose results no kernel stores."""
        return frozenset(name.data for name in self.unstored or ())

    def leave_unstored(self, stage: str) -> None:
        """Note that no kernel stores the results of a stage any more."""
        names = sorted(self.unstored_stages | {stage})
        self.attributes["unstored"] = ArrayAttr([StringAttr(name) for name in names])

    @property
    def kernels(self) -> Iterator[DeviceKernelOp]:
        """The device kernels in launch order."""
        return (op for op in self.body.block.ops if isinstance(op, DeviceKernelOp))

    @classmethod
    def parse(cls, parser: Parser) -> ProgramOp:
        attributes, region = cls.parse_parts(parser)
        return ProgramOp.create(attributes=attributes, regions=[region])

    def verify_(self) -> None:
        args = self.body.block.args
        if tuple(a.type for a in args) != tuple(self.function_type.inputs):
            raise VerifyException("block arguments do not match the program's type")
        if len(self.arg_names) != len(args):
            raise VerifyException(f"{len(self.arg_names)} names for {len(args)} arguments")
        if not 0 <= self.num_inputs.value.data <= len(args):
            raise VerifyException("num_inputs is out of range")
        if self.guards is not None and self.entry_of is None:
            raise VerifyException("guards belong to an entry of a kernel")
        if dims := {r.dim for guard in self.boxes for r in guard} - set(self.dim_names):
            raise VerifyException(f"guards name unknown dims: {', '.join(sorted(dims))}")


@irdl_op_definition
class WorkspaceOp(FormattedOp):
    """Allocate a tensor in the workspace; workspace planning sets `slot`."""

    name = "cutlass.workspace"

    slot = opt_prop_def(IntegerAttr)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = "(`slot` $slot^)? attr-dict `:` type($result)"

    def __init__(self, type: TensorType):
        super().__init__(result_types=[type])


# Device kernels


class DeviceKernelOp(FormattedOp, ABC):
    """Base of the ops that become one device kernel each.

    The region reads tensors of the program directly.
    """

    stage = prop_def(StringAttr)
    body = region_def("single_block")

    traits = traits_def(NoTerminator())

    @property
    def nodes(self) -> Iterator[Operation]:
        return iter(self.body.block.ops)

    @property
    def stores(self) -> tuple[StoreNode, ...]:
        """The nodes that write to memory, in order."""
        return tuple(op for op in self.nodes if isinstance(op, StoreNode))

    def verify_nodes(self, kinds: tuple[type[Operation], ...]) -> None:
        """Raise VerifyException unless all nodes are of these kinds, or pointwise, and one stores."""
        for op in self.nodes:
            if not isinstance(op, kinds) and not isinstance(op, ElementwiseOp | ConstantOp | ComputeOp):
                raise VerifyException(f"{op.name} is no node of a {self.name}")
        if not self.stores:
            raise VerifyException(f"the {self.name} stores nothing")

    @property
    def loads(self) -> tuple[LoadNode, ...]:
        """The nodes that read memory, in order."""
        return tuple(op for op in self.nodes if isinstance(op, LoadNode))


def is_reproducible(op: Operation) -> bool:
    """Whether a device kernel has `reproducible = on`, as a setting or as an attribute."""
    return REPRODUCIBLE.is_on({**op.attributes, **op.properties})


class SpaceKernelOp(DeviceKernelOp, ABC):
    """Base of the ops of kernels that run over a space of extents."""

    space = prop_def(ArrayAttr[IntAttr | StringAttr])

    @property
    def extents(self) -> Dims:
        return dims_of(self.space)


class ReductionKernelOp(SpaceKernelOp, ABC):
    """Base of the ops of kernels that reduce over `axes` of their space."""

    axes = prop_def(DenseArrayBase.constr(i64))

    FORMAT: ClassVar[str] = "$stage `space` $space `axes` $axes $body attr-dict"

    def __init__(self, stage: str, space: Sequence[Dim], axes: Sequence[int], body: Region):
        super().__init__(
            properties={
                "stage": StringAttr(stage),
                "space": dims_attr(space),
                "axes": DenseArrayBase.from_list(i64, list(axes)),
            },
            regions=[body],
        )


OPERATIONS = (ProgramOp, WorkspaceOp)
