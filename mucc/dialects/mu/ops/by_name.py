"""Tell operations by their names: their classes are loaded only for programs that have one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from xdsl.ir import Operation

if TYPE_CHECKING:
    from mucc.dialects.mu.ops.conv import ConvolutionOp
    from mucc.dialects.mu.ops.pooling import PoolOp
    from mucc.dialects.mu.ops.shape import SliceOp


def is_pool(op: Operation | None) -> TypeGuard[PoolOp]:
    """Whether an operation is a `mu.pool`."""
    return op is not None and op.name == "mu.pool"


def is_convolution(op: Operation | None) -> TypeGuard[ConvolutionOp]:
    """Whether an operation is a convolution, transposed or not."""
    return op is not None and op.name in ("mu.conv", "mu.conv_transpose")


def is_slice(op: Operation | None) -> TypeGuard[SliceOp]:
    """Whether an operation is a `mu.slice`, for modules that cannot import its class."""
    return op is not None and op.name == "mu.slice"
