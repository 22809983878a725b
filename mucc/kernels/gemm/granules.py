"""Find how many bytes of a contraction's matrices one access may have, from what is known of its dims."""

from __future__ import annotations

from math import gcd

from xdsl.ir import Attribute, Operation, SSAValue

from mucc.dialects.cutlass import ops as c
from mucc.dialects.cutlass.views import view_of
from mucc.dialects.mu.entry import EntryOp
from mucc.dialects.mu.ops.contraction import Compute
from mucc.dialects.mu.types import TensorType, dtype_bits
from mucc.dialects.promises import may_be_multiple, promised_multiple
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.lowering.reach import multiple_of
from mucc.target.facts import WIDEST_ACCESS


def program_of(gemm: Operation) -> c.ProgramOp:
    """Return the program that launches a kernel."""
    program = gemm.parent_op()
    assert isinstance(program, c.ProgramOp)
    return program


def unit_axis(gemm: GemmOp, value: SSAValue) -> int:
    """Return the axis along which a kernel takes a matrix as contiguous: K of an operand, if it is
    contiguous.
    """
    type = value.type
    assert isinstance(type, TensorType) and type.unit_axis is not None
    k = type.rank - 1 if value is gemm.a else type.rank - 2
    return k if value in gemm.operands_given and type.is_contiguous(k) else type.unit_axis


def held(gemm: GemmOp, value: SSAValue) -> int:
    """Bytes that every row of a matrix starts and ends at a multiple of, at most 16.

    Strides that are free are no limit: each call is checked for them.
    """
    program, type = program_of(gemm), value.type
    assert isinstance(type, TensorType)
    extent = type.dims[unit_axis(gemm, value)]
    if isinstance(extent, str):
        promises = program.promises.data if program.promises else None
        extent = promised_multiple(promises, program.dim_names, extent)
    elements = extent // 2 if type.is_sparse and extent % 2 == 0 else extent
    elements = gcd(elements, fixed_step(view_of(value).base.type))
    return gcd(elements * dtype_bits(type.element_type) // 8, WIDEST_ACCESS)


def fixed_step(type: Attribute) -> int:
    """Return the greatest number that divides all strides that a type fixes; 0 if it fixes none."""
    if not isinstance(type, TensorType) or type.layout.kind.data != "strides":
        return 0
    strides = zip(type.layout.stride_values, type.dims, strict=True)
    return gcd(*(s for s, extent in strides if s is not None and s != 1 and extent != 1))


def may_be_wide(entry: EntryOp, type: Attribute, unit: int | None = None) -> bool:
    """Whether rows of a matrix can be whole multiples of 16 bytes, with a further promise if need be.

    Rows lie along the axis `unit`, by default that of the type; false where no elements are adjacent. Strides
    that it fixes stay as they are.
    """
    assert isinstance(type, TensorType)
    unit = type.unit_axis if unit is None else unit
    if unit is None:
        return False
    extent = type.dims[unit]
    multiple = multiple_of(type, WIDEST_ACCESS)
    if fixed_step(type) % multiple:
        return False
    if isinstance(extent, int):
        return extent % multiple == 0
    promises = entry.promises.data if entry.promises else None
    return may_be_multiple(promises, entry.dim_names, extent, multiple)


def _may_be_wide(program: c.ProgramOp, gemm: GemmOp, value: SSAValue) -> bool:
    """Whether rows of a kernel's matrix can be whole multiples of 16 bytes, and lie so far apart."""
    type = value.type
    assert isinstance(type, TensorType)
    if fixed_step(view_of(value).base.type) % multiple_of(type, WIDEST_ACCESS):
        return False
    return may_be_wide(program, type, unit_axis(gemm, value))


def all_may_be_wide(gemm: GemmOp) -> bool:
    """Whether rows of all matrices can be whole multiples of 16 bytes; f32 that is split is copied anyway."""
    operands = () if gemm.compute.data is Compute.TF32X3 else gemm.operands_given
    program = program_of(gemm)
    return all(_may_be_wide(program, gemm, value) for value in (*operands, *_outer(gemm)))


def outer_are_wide(gemm: GemmOp) -> bool:
    """Whether rows of what the epilogue reads and writes are known to be multiples of 16 bytes."""
    return all(held(gemm, value) == WIDEST_ACCESS for value in _outer(gemm))


def _outer(gemm: GemmOp) -> list[SSAValue]:
    return [value for value, op in gemm.matrices if op is not gemm]
