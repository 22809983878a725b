"""Groups of neighbouring columns that a product's epilogue reduces: which products, widths and schedules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, lcm
from types import MappingProxyType
from typing import Protocol, TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from mucc.dialects.cutlass.ops import DeviceKernelOp, ProgramOp, WorkspaceOp
from mucc.dialects.mu.ops.contraction import Compute
from mucc.dialects.mu.ops.views import RegroupOp
from mucc.dialects.mu.schedule import ScheduleOp
from mucc.dialects.mu.schedule_attributes import (
    MainloopAttr,
    SchedulerAttr,
    SchedulerKind,
    Switch,
    SwitchAttr,
    TileAttr,
)
from mucc.dialects.mu.settings import EPILOGUE, EXCHANGE, MAINLOOP, SCHEDULER, TILE
from mucc.dialects.mu.types import Dims, TensorType
from mucc.kernels.gemm.granules import all_may_be_wide
from mucc.kernels.gemm.nodes import MatrixStore
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.operand import DENSE
from mucc.library.extents import multiply, names_of, values

TILES = (64, 96, 128, 192, 256)
"""Widths of output tiles, in columns: one of them has to be a multiple of a group's width. Kernels with tiles
of other widths are seldom fast."""

BOX = 32
"""Columns of a box of the tile. Groups that divide it may be normalised together with a matrix that the
epilogue reads: it has the elements of one box at a time."""

FEW = 64
"""Tiles of 128 x 128 below which K is better divided, which kernels that reduce groups do not."""

ROWS = 64
"""Rows below which other kernels are faster, which have no tiles of 64."""


def is_plain(product: GemmOp) -> bool:
    """Whether a kernel multiplies two dense matrices and its stage has no name that the user gave it."""
    is_named = re.fullmatch(r"s\d+", product.stage.data) is None
    is_special = product.is_pair or product.is_grouped or product.scales or product.prepared
    if is_named or is_special or product.forms != (DENSE, DENSE) or product.ranges:
        return False
    return product.compute.data in (Compute.BF16, Compute.F16, Compute.TF32)


def suits(program: ProgramOp, product: GemmOp, width: int) -> bool:
    """Whether the target has a kernel of a product that reduces groups of `width` columns.

    Groups lie within a tile, and TMA copies all operands.
    """
    if width < 2 or (width % 8 and width not in (2, 4)) or all(tile % width for tile in TILES):
        return False
    lhs, rhs = product.a.type, product.b.type
    assert isinstance(lhs, TensorType) and isinstance(rhs, TensorType)
    k_major = lhs.is_contiguous(lhs.rank - 1), rhs.is_contiguous(rhs.rank - 2)
    target = gemm_target(program.target.data)
    return target.reduces_groups(product.compute.data.value, *k_major) and all_may_be_wide(product)


def is_large(space: Dims, sizes: Mapping[str, int] = MappingProxyType({})) -> bool:
    """Whether a product of extents `space` has so many rows and tiles that K need not be divided.

    `sizes` are typical values of open dims; those without one are large.
    """
    *rows, columns = values(space, sizes) if names_of(space) <= sizes.keys() else space
    m = multiply(rows)
    if not isinstance(m, int) or not isinstance(columns, int):
        return not isinstance(m, int) or m >= ROWS
    return m >= ROWS and ceil(m / 128) * ceil(columns / 128) >= FEW


def allows(schedule: ScheduleOp, product: GemmOp, width: int) -> bool:
    """Whether a product's kernel that reduces groups of columns can have the settings of a schedule."""
    if schedule.stage not in (None, product.stage):
        return True
    settings, mainloops = schedule.settings.data, gemm_target(schedule.target.data).reducing_mainloops
    mainloop, tile = settings.get(MAINLOOP.name), settings.get(TILE.name)
    scheduler, exchange = settings.get(SCHEDULER.name), settings.get(EXCHANGE.name)
    if isinstance(mainloop, MainloopAttr) and mainloop.data.value not in mainloops:
        return False
    if isinstance(tile, TileAttr) and tile.sizes[1] % lcm(width, BOX):
        return False
    if isinstance(scheduler, SchedulerAttr) and scheduler.kind.data != SchedulerKind.PERSISTENT:
        return False
    return EPILOGUE.name not in settings and not (
        isinstance(exchange, SwitchAttr) and exchange.data is Switch.ON
    )


class Joint(Protocol):
    """How a kernel, or a part of it, joins the product before it.

    The epilogue of `product`, whose result has the extents `space`, reduces groups of `width` columns.
    """

    @property
    def product(self) -> GemmOp: ...
    @property
    def space(self) -> Dims: ...
    @property
    def width(self) -> int: ...


J = TypeVar("J", bound=Joint)
K = TypeVar("K", bound=DeviceKernelOp)


def find_joints(
    module: ModuleOp, kind: type[K], find: Callable[[ProgramOp, K], J | None], sizes: Sequence[str]
) -> Iterator[tuple[ProgramOp, Sequence[ScheduleOp], K, J]]:
    """Yield the kernels of a kind that can join the product before them, as `find` says.

    Each comes with its program and the schedules that pin settings of that. Products that are not large and
    those whose schedules do not allow it are left out. `sizes` are typical values of open dims, each as
    `M=128`. The caller may replace the kernel that it got.
    """
    typical = {name: int(size) for name, _, size in (word.partition("=") for word in sizes)}
    schedules = [s for s in module.body.block.ops if isinstance(s, ScheduleOp)]
    for program in (op for op in module.body.block.ops if isinstance(op, ProgramOp)):
        own = [s for s in schedules if (s.kernel, s.target) == (program.sym_name, program.target)]
        for kernel in list(program.kernels):
            if not isinstance(kernel, kind) or (joint := find(program, kernel)) is None:
                continue
            if not is_large(joint.space, typical):
                continue
            if all(allows(s, joint.product, joint.width) for s in own):
                yield program, own, kernel, joint


def base_of(tensor: SSAValue) -> SSAValue:
    """Return the tensor that a view with other extents reads; the tensor itself if it is no such view."""
    return tensor.owner.operand if isinstance(tensor.owner, RegroupOp) else tensor


def producer(source: SSAValue) -> MatrixStore | None:
    """Return the store of a product to a tensor of the workspace, if nothing but one load reads that."""
    base = base_of(source)
    if not isinstance(base.owner, WorkspaceOp):
        return None
    uses = [use.operation for use in base.uses]
    views = [op for op in uses if isinstance(op, RegroupOp)]
    users = [op for op in uses if not isinstance(op, RegroupOp)]
    users += [use.operation for view in views for use in view.result.uses]
    stores = [op for op in users if isinstance(op, MatrixStore)]
    if len(users) != 2 or len(stores) != 1 or not isinstance(stores[0].parent_op(), GemmOp):
        return None
    return stores[0]
