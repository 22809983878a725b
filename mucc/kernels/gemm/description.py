"""Describe a `cutlass.gemm` in plain numbers, for targets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from weakref import WeakKeyDictionary

from xdsl.ir import Attribute, Operation, SSAValue

from mucc.codegen.instructions import instructions_class
from mucc.dialects.cutlass.nodes import LoadNode, ReductionNode, StoreNode
from mucc.dialects.mu.ops.reduction import Reduction
from mucc.dialects.mu.types import Dims, Shaped, TensorType, dtype_bytes
from mucc.kernels.gemm.granules import all_may_be_wide, held, outer_are_wide, unit_axis
from mucc.kernels.gemm.nodes import (
    AuxLoadOp,
    AuxStoreOp,
    ColBroadcastOp,
    ColReductionOp,
    GroupRowOp,
    GroupStoreOp,
    RowBroadcastOp,
    RowReductionOp,
    ScalarBroadcastOp,
    ScalarReductionOp,
    ScatterDOp,
    SrcFetchOp,
    StoreDOp,
)
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.scheduling.config import Epilogue, GemmConfig, Problem, Schedule
from mucc.kernels.gemm.scheduling.operand import Operand
from mucc.kernels.gemm.settings import schedule_from
from mucc.library.extents import names_of, values
from mucc.target.facts import WIDEST_ACCESS

_NONE: Mapping[str, int] = MappingProxyType({})


def _bytes(type: Attribute) -> int:
    """Bytes of an element of a tensor, or of a scalar."""
    return dtype_bytes(Shaped.of(type).element_type)


def _is_row_major(gemm: GemmOp, value: SSAValue) -> bool:
    return unit_axis(gemm, value) == len(Shaped.of(value.type).dims) - 1


_DESCRIBED: WeakKeyDictionary[GemmOp, Problem] = WeakKeyDictionary()
"""What is known of gemms whatever the sizes: passes that ask for it change neither operands nor nodes."""


def problem_of(gemm: GemmOp, sizes: Mapping[str, int] = _NONE) -> Problem:
    """Return the problem of a gemm. `sizes` are typical values of open dims."""
    if (described := _DESCRIBED.get(gemm)) is None:
        described = _DESCRIBED[gemm] = _described(gemm)
    m, n, k, batch = (_extent(d, sizes) for d in gemm.shape.extents)
    if described.is_grouped:
        batch = _extent(gemm.groups, sizes)
        m = -(-m // batch) if m is not None and batch is not None else None
    wide = described.wide
    if sizes and wide:
        wide = all(_suits_tma(gemm, value, sizes) for value, _ in gemm.matrices)
    return described._replace(m=m, n=n, k=k, batch=batch, wide=wide)


def _suits_tma(gemm: GemmOp, value: SSAValue, sizes: Mapping[str, int]) -> bool:
    """Whether rows of a matrix are whole multiples of 16 bytes at typical sizes."""
    dims, element = Shaped.of(value.type)
    extent = sizes.get(str(dims[unit_axis(gemm, value)]), 0)
    return extent * dtype_bytes(element) % WIDEST_ACCESS == 0


def _described(gemm: GemmOp) -> Problem:
    """Return the problem without extents."""
    a, b = gemm.forms
    return Problem(
        compute=gemm.compute.data.value,
        a=Operand(_is_row_major(gemm, gemm.a), held(gemm, gemm.a), a),
        b=Operand(not _is_row_major(gemm, gemm.b), held(gemm, gemm.b), b),
        epilogue=_epilogue_of(gemm),
        fast_accumulation=gemm.acc is not None,
        rights=2 if gemm.is_pair else 1,
        wide=all_may_be_wide(gemm),
        outer=outer_are_wide(gemm),
        listed=gemm.may_be_listed,
    )


def _extent(dims: Dims, sizes: Mapping[str, int]) -> int | None:
    """Return the product of extents; None if one is known at run time only and has no typical size."""
    if not names_of(dims) <= sizes.keys():
        return None
    return prod(values(dims, sizes))


def _epilogue_of(gemm: GemmOp) -> Epilogue:
    """Return the traffic of a gemm's epilogue."""
    loads: dict[type[Operation], list[int]] = defaultdict(list)
    stores: dict[type[Operation], list[int]] = defaultdict(list)
    for op in gemm.nodes:
        if isinstance(op, LoadNode):
            loads[type(op)].append(_bytes(op.source.type))
        elif isinstance(op, StoreNode) and not isinstance(op, GroupStoreOp) and op not in gemm.ranges[1:]:
            stores[type(op)].append(_bytes(op.destination.type))
    destination = gemm.destination
    source = next((op.source for op in gemm.nodes if isinstance(op, SrcFetchOp)), None)
    return Epilogue(
        destination=next(iter([*stores[StoreDOp], *stores[ScatterDOp]]), None),
        source=next(iter(loads[SrcFetchOp]), None),
        aux_loads=tuple(loads[AuxLoadOp]),
        aux_stores=tuple(stores[AuxStoreOp]),
        row_broadcasts=(*loads[RowBroadcastOp], *loads[GroupRowOp]),
        row_reductions=len(stores[RowReductionOp]),
        col_reductions=len(stores[ColReductionOp]),
        scalar_reductions=len(stores[ScalarReductionOp]),
        unordered_sums=sum(
            isinstance(op, ReductionNode) and op.kind.data is Reduction.SUM for op in gemm.nodes
        ),
        destination_is_col_major=destination is not None and not _is_row_major(gemm, destination.destination),
        col_broadcasts=tuple(loads[ColBroadcastOp]),
        scalars=sum(
            isinstance(op, ScalarBroadcastOp) and isinstance(op.source.type, TensorType) for op in gemm.nodes
        ),
        source_is_col_major=source is not None and not _is_row_major(gemm, source),
        aux_loads_by_columns=tuple(
            not _is_row_major(gemm, op.source) for op in gemm.nodes if isinstance(op, AuxLoadOp)
        ),
        aux_stores_by_columns=tuple(
            not _is_row_major(gemm, op.destination)
            for op in gemm.nodes
            if isinstance(op, AuxStoreOp) and not gemm.ranges
        ),
        ranges=len(gemm.ranges),
        group=gemm.group_columns,
        instructions=instructions_class(gemm.nodes),
    )


def config_of(gemm: GemmOp) -> GemmConfig:
    """Return the configuration of a kernel whose schedule is chosen."""
    return problem_of(gemm).config(schedule_of(gemm))


def schedule_of(gemm: GemmOp) -> Schedule:
    """Return the schedule of a gemm."""
    assert gemm.tile and gemm.cluster and gemm.mainloop and gemm.scheduler
    return schedule_from(gemm.properties)


def pointwise_digest(gemm: GemmOp) -> str:
    """Tells the pointwise work of epilogues apart, whatever their values are called."""
    import hashlib

    names: dict[SSAValue, int] = {}
    lines: list[str] = []
    for op in gemm.walk():
        for value in (*op.results, *(arg for region in op.regions for arg in region.block.args)):
            names[value] = len(names)
        operands = [str(names.get(value, "-")) for value in op.operands] if op is not gemm else []
        properties = {k: str(v) for k, v in op.properties.items()} if op is not gemm else {}
        lines.append(f"{op.name}({', '.join(operands)}) {sorted(properties.items())}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
