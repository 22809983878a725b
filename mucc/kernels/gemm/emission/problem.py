"""The layout of a contraction's operands in memory: strides by rows, columns and batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from mucc.codegen.memory import ZERO, Axis, EmissionError, Memory, Places, Product
from mucc.dialects.cutlass.nodes import LoadNode, StoreNode
from mucc.dialects.mu.types import Dims, Shaped
from mucc.kernels.gemm.nodes import (
    ColBroadcastOp,
    ColReductionOp,
    RowBroadcastOp,
    RowReductionOp,
)


@dataclass(frozen=True)
class Matrix:
    """A matrix of the problem: its memory and its strides over (rows, columns, batch)."""

    memory: Memory
    strides: tuple[Product, Product, Product]

    @property
    def is_row_major(self) -> bool:
        """Whether neighbours along the second axis are adjacent."""
        return self.strides[1].is_one

    @property
    def type(self) -> str:
        """The cute stride type: `cute::Stride<int64_t, cute::_1, cute::_0>`."""
        return stride_type(self.strides, self.unit)

    @property
    def unit(self) -> int:
        """The contiguous axis."""
        return 1 if self.is_row_major else 0

    @property
    def value(self) -> str:
        """A C++ initializer of a `mucc::gemm::Operand`."""
        return operand_value(self.memory, self.strides, self.unit)


def stride_type(strides: Sequence[Product], unit: int | None) -> str:
    """Return a cute stride type with its unit axis and its zeros static."""
    return f"cute::Stride<{', '.join(stride_parts(strides, unit))}>"


def stride_parts(strides: Sequence[Product], unit: int | None) -> list[str]:
    """Return the types of a stride's parts."""
    return [
        "cute::_1" if i == unit else "cute::_0" if s.is_zero else "int64_t" for i, s in enumerate(strides)
    ]


def operand_value(memory: Memory, strides: Sequence[Product], unit: int | None) -> str:
    """Return a C++ initializer of a `mucc::gemm::Operand`; strides fixed by its type are left out."""
    data = memory.address
    if all(i == unit or s.is_zero for i, s in enumerate(strides)):
        return f"{{{data}}}"
    return f"{{{data}, {{{', '.join('1' if i == unit else str(s) for i, s in enumerate(strides))}}}}}"


@dataclass
class Problem:
    """The axes of a contraction's result: batch, rows, columns, each several extents taken as one.

    `exchanged` says that the kernel computes the transposed result, so that its rows are our columns.
    What is called axis 0 or 1 here is a row or column axis of the kernel.
    """

    places: Places
    batch: Dims
    m: Dims
    n: Dims
    exchanged: bool = False

    @property
    def space(self) -> Dims:
        return (*self.batch, *self.m, *self.n)

    def extents(self, axis: int | None) -> Dims:
        """Return the extents of the kernel's rows (axis 0) or columns (axis 1); `()` if the axis is None."""
        if axis is None:
            return ()
        return self.n if (axis == 1) is not self.exchanged else self.m

    def axis(self, node: LoadNode | StoreNode) -> int | None:
        """Return the axis along which a vector node varies."""
        match node:
            case RowBroadcastOp() | RowReductionOp():
                return 0 if self.exchanged else 1
            case ColBroadcastOp() | ColReductionOp():
                return 1 if self.exchanged else 0
            case _:
                return None

    def strides(self, value: SSAValue) -> tuple[Memory, tuple[Product, Product, Product]]:
        """Return the strides of a tensor over the kernel's rows, columns and batch."""
        memory, axes = self.places.view(value, self.space)
        b, m = len(self.batch), len(self.m)

        def along(extents: Dims, part: Sequence[Axis]) -> Product:
            return self.places.collapse(memory.name, extents, part)

        rows = along(self.m, axes[b : b + m])
        columns = along(self.n, axes[b + m :])
        batch = along(self.batch, axes[:b])
        return memory, (columns, rows, batch) if self.exchanged else (rows, columns, batch)

    def matrix(self, value: SSAValue) -> Matrix:
        """Return a tensor as a full matrix; one of its axes must be contiguous."""
        memory, strides = self.strides(value)
        matrix = Matrix(memory, strides)
        if not (strides[0].is_one or strides[1].is_one):
            raise EmissionError(f"{memory.name} is contiguous along neither rows nor columns")
        return matrix

    def groups(self, value: SSAValue) -> tuple[Memory, tuple[Product, Product, Product]]:
        """Return a matrix with one column for each group of columns: its strides over rows, groups, batch."""
        memory, axes = self.places.view(value, Shaped.of(value.type).dims)
        b, m = len(self.batch), len(self.m)
        rows = self.places.collapse(memory.name, self.m, axes[b : b + m])
        batch = self.places.collapse(memory.name, self.batch, axes[:b])
        return memory, (rows, axes[-1].stride, batch)

    def vector(self, value: SSAValue, axis: int | None) -> tuple[Memory, Product]:
        """Return a vector read along `axis` (0 rows, 1 columns, None one number) and its batch stride."""
        memory, strides = self.strides(value)
        self._check_vector(memory, strides[:2], axis)
        return memory, strides[2]

    def reduced(self, value: SSAValue, axis: int | None) -> tuple[Memory, Product]:
        """Return a vector that a reduction writes along `axis`, and its batch stride (0: reduced)."""
        kept = _several(self.extents(axis))
        shape = Shaped.of(value.type).dims
        dims = _several(shape)
        batch = every if dims == (*(every := _several(self.batch)), *kept) else ()
        if dims != (*batch, *kept):
            raise EmissionError(f"a reduction to {list(shape)} in a kernel over {list(self.space)}")
        memory, all_axes = self.places.view(value, shape)
        axes = [a for a, extent in zip(all_axes, shape, strict=True) if extent != 1]
        along = self.places.collapse(memory.name, kept, axes[len(batch) :])
        strides = [ZERO, ZERO]
        if axis is not None:
            strides[axis] = along
        self._check_vector(memory, strides, axis)
        return memory, self.places.collapse(memory.name, batch, axes[: len(batch)])

    def _check_vector(self, memory: Memory, strides: Sequence[Product], axis: int | None) -> None:
        for i in (0, 1):
            if self.places.count(self.extents(i)).is_one:
                continue
            if i == axis and not strides[i].is_one:
                raise EmissionError(f"{memory.name} is not contiguous along the axis that it is a vector of")
            if i != axis and not strides[i].is_zero:
                raise EmissionError(f"{memory.name} varies along more than one axis")


def _several(dims: Dims) -> Dims:
    """Return the extents other than 1: only along these strides matter."""
    return tuple(extent for extent in dims if extent != 1)
