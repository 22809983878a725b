"""Describing a `cutlass.gemm` in the plain numbers that targets reason about."""

from __future__ import annotations

from mucc.dialects.cutlass import ops as c
from mucc.dialects.mu.ops import Compute
from mucc.dialects.mu.schedule import SchedulerAttr
from mucc.dialects.mu.types import TensorType, dtype_bytes
from mucc.target.config import Epilogue, GemmConfig


def _bytes(value: object) -> int:
    assert isinstance(value, TensorType)
    return dtype_bytes(value.element_type)


def _all(gemm: c.GemmOp, kind: type[c.LoadNode]) -> tuple[int, ...]:
    return tuple(_bytes(op.source.type) for op in gemm.nodes if isinstance(op, kind))


def epilogue_of(gemm: c.GemmOp) -> Epilogue:
    """What a gemm's epilogue moves."""
    destination = gemm.destination
    source = gemm.source
    return Epilogue(
        destination=_bytes(destination.destination.type) if destination else None,
        source=_bytes(source.source.type) if source else None,
        aux_loads=_all(gemm, c.AuxLoadOp),
        aux_stores=tuple(_bytes(op.destination.type) for op in gemm.nodes if isinstance(op, c.AuxStoreOp)),
        row_broadcasts=_all(gemm, c.RowBroadcastOp),
        row_reductions=sum(isinstance(op, c.RowReductionOp) for op in gemm.nodes),
        col_reductions=sum(isinstance(op, c.ColReductionOp) for op in gemm.nodes),
        scalar_reductions=sum(isinstance(op, c.ScalarReductionOp) for op in gemm.nodes),
        destination_is_col_major=destination is not None and not _is_row_major(destination.destination.type),
    )


def _is_row_major(type: object) -> bool:
    assert isinstance(type, TensorType)
    return type.unit_axis == type.rank - 1


def a_is_k_major(gemm: c.GemmOp) -> bool:
    """Whether K is A's contiguous axis."""
    return _is_row_major(gemm.a.type)


def b_is_k_major(gemm: c.GemmOp) -> bool:
    """Whether K is B's contiguous axis."""
    return not _is_row_major(gemm.b.type)


def config_of(gemm: c.GemmOp) -> GemmConfig:
    """The whole description, once the schedule is chosen."""
    assert gemm.tile and gemm.cluster and gemm.mainloop and gemm.scheduler
    scheduler: SchedulerAttr = gemm.scheduler
    return GemmConfig(
        compute=gemm.compute.data.value,
        element_bytes=4 if gemm.compute.data is Compute.TF32 else 2,
        a_k_major=a_is_k_major(gemm),
        b_k_major=b_is_k_major(gemm),
        tile=gemm.tile.sizes,
        cluster=gemm.cluster.sizes,
        mainloop=gemm.mainloop.data.value,
        scheduler=scheduler.kind.data,
        epilogue=epilogue_of(gemm),
        splits=scheduler.splits.data,
        swizzle=scheduler.swizzle.data,
    )
