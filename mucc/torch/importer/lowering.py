"""The registry of lowerings from ATen operations to `mu`, and the builder they use."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops import indexed, shape, views
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp
from mucc.dialects.mu.rules import TypeRuleError
from mucc.dialects.mu.types import DTYPES, Dim, Dims, ElementType, Shaped, TensorType, dtype_name
from mucc.torch.importer.capture import torch

aten: Any = torch.ops.aten
importlib.import_module("torch._prims")  # registers the operations of the next line
prims: Any = torch.ops.prims

FLOATS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
HALVES = ("float16", "bfloat16")
NARROW = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
INTEGERS = {"int64": "s32", "int32": "s32", "int8": "s8", "uint8": "u8"}
MU_DTYPES = {**FLOATS, **NARROW, **INTEGERS, "bool": "bool", "uint4x2": "u4", "int4x2": "s4"}
"""The dtype in `mu` of each dtype of torch that has one. An int64 is an s32 there: see docs/pytorch.md.

Of integers that share a byte, torch has the bytes: see `packed_weights`.
"""

EXACT = 1 << 24
"""Integers below are exact in f32, in which `mu` compares them."""

UNROUNDED = (
    *(e.NegOp, e.AbsOp, e.ReluOp, e.MinOp, e.MaxOp, e.SelectOp, e.CmpOp, e.CastOp),
    *(e.SignOp, e.FloorOp, e.CeilOp, e.RoundOp, e.TruncOp, e.FmodOp),
    *(o for o in shape.OPERATIONS if o not in (shape.FullOp, shape.PadOp)),
    *views.OPERATIONS,
    *indexed.OPERATIONS,
)
"""Operations whose results are exact in the dtype of their operands, or rounded by themselves."""

Value = SSAValue
Built = Value | tuple[Value | None, ...]


class Unsupported(Exception):
    """The operation cannot be lowered to `mu`, for the reason in the text."""


@dataclass(frozen=True)
class Meta:
    """The extents and the torch dtype of a value of the graph."""

    dims: Dims
    dtype: str

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def element_type(self) -> ElementType:
        """The dtype in `mu`. Raises Unsupported where there is none."""
        if self.dtype not in MU_DTYPES:
            raise Unsupported(f"mu has no {self.dtype}")
        return DTYPES[MU_DTYPES[self.dtype]]

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    def type(self) -> TensorType:
        """Return the type of a row-major tensor like this. Raises Unsupported if `mu` has none."""
        if 0 in self.dims:
            raise Unsupported("an empty tensor")
        return TensorType.of(self.dims, self.element_type)

    def extent(self, axis: int) -> int:
        """Return a fixed extent. Raises Unsupported for an open dim."""
        return fixed(self.dims[axis])


class Open(str):
    """The name of an open extent among the arguments of a node."""


def fixed(dim: Dim) -> int:
    """Return a fixed extent. Raises Unsupported for an open dim."""
    if isinstance(dim, str):
        raise Unsupported(f"the extent {dim} is not fixed")
    return dim


Lowering = Callable[..., Built]

LOWERINGS: dict[Any, Lowering] = {}
"""What builds each overload: called with a `Builder` and the arguments of the node, by torch's schema.

Tensors come as values of `mu`, all else as it is.
"""


def lowers(*overloads: Any) -> Callable[[Lowering], Lowering]:
    """Register a function for overloads of ATen operations."""

    def register(function: Lowering) -> Lowering:
        for overload in overloads:
            LOWERINGS[overload] = function
        return function

    return register


class Builder:
    """Builder that appends the `mu` operations of one node to a block.

    `results` says what torch makes of the node: one `Meta` for each of its values. `compute` is the format
    of products of f32, `conv_compute` that of convolutions. With `rounds` what is computed is rounded to
    16-bit floats where torch has such, and not only where it is stored.
    """

    def __init__(
        self,
        block: Block,
        results: Sequence[Meta | None],
        compute: str,
        conv_compute: str,
        rounds: bool = False,
    ):
        self.block = block
        self.results = results
        self.compute = compute
        self.conv_compute = conv_compute
        self.rounds = rounds
        self.made: list[Operation] = []

    @property
    def result(self) -> Meta:
        """The first value of the node."""
        first = self.results[0]
        assert first is not None
        return first

    def add(self, op: Operation) -> SSAValue:
        """Append an operation; its result."""
        self.block.add_op(op)
        self.made.append(op)
        return op.results[0]

    def value(self, operand: Any) -> SSAValue:
        """Return a value as it is, a number or an open extent as one. Raises Unsupported for others."""
        if isinstance(operand, SSAValue):
            return cast(SSAValue, operand)
        if isinstance(operand, bool | int | float):
            return self.number(operand)
        if isinstance(operand, Open):
            return self.add(e.ExtentOp(operand))
        raise Unsupported(f"an operand {operand!r}")

    def number(self, value: float) -> SSAValue:
        """Return a constant; NaN is `inf - inf`. Raises Unsupported for integers that f32 does not hold."""
        if isinstance(value, int) and abs(value) >= EXACT:
            raise Unsupported(f"the number {value}")
        if math.isnan(value):
            return self.call(e.SubOp, math.inf, math.inf)
        return self.add(e.ConstantOp(float(value)))

    def call(self, cls: Callable[..., Operation], *operands: Any, **options: Any) -> SSAValue:
        """Add an operation on values and numbers."""
        return self.add(cls(*(self.value(o) for o in operands), **options))

    def keep(self, value: Value, axes: Iterable[int], keepdim: bool = True) -> SSAValue:
        """Insert the axes of a reduced value again, if they are to be kept."""
        value = self.value(value)
        axes = sorted(axes)
        return self.add(ExpandOp(value, axes)) if keepdim and axes else value

    def column(self, value: Value, axis: int, rank: int) -> SSAValue:
        """Return a vector along an axis of a tensor of some rank: `b[:, None, None]`."""
        axes = [n for n in range(rank - axis) if n]
        return self.add(ExpandOp(self.value(value), axes)) if axes else self.value(value)

    def cast(self, value: Value, dtype: str) -> SSAValue:
        """Cast a value to a dtype of `mu`."""
        value = self.value(value)
        if dtype_of(value) == dtype:
            return value
        return self.add(e.CastOp(value, DTYPES[dtype]))

    def fitted(self, value: Value, meta: Meta) -> SSAValue:
        """Return a value with torch's extents, rounded to torch's dtype.

        Raises Unsupported where that would not be exact: arithmetic on integers, which is f32 in `mu`.
        """
        value = self.value(value)
        shaped = Shaped.of(value.type)
        if shaped.dims != meta.dims:
            try:
                value = self.add(BroadcastOp(value, meta.dims))
            except TypeRuleError as error:
                raise Unsupported(f"shape {shaped} is not {list(meta.dims)}: {error.message}") from error
        if meta.dtype == "float64" and not meta.dims:
            return value
        wanted = meta.element_type
        if shaped.element_type == wanted:
            must_round = (
                self.rounds and meta.dtype in HALVES and not all(isinstance(o, UNROUNDED) for o in self.made)
            )
            return self.add(e.CastOp(value, wanted)) if must_round else value
        if not meta.is_float or shaped.element_type == i1:
            raise Unsupported(f"arithmetic on {meta.dtype}")
        return self.add(e.CastOp(value, wanted))


def dims_of(value: SSAValue) -> Dims:
    """Return the extents of a value."""
    return Shaped.of(value.type).dims


def dtype_of(value: SSAValue) -> str:
    """Return the dtype of a value by its name in `mu`."""
    return dtype_name(Shaped.of(value.type).element_type)


def axis_of(axis: int, rank: int) -> int:
    """Return an axis counted from the front."""
    return axis % rank if rank else 0


def build(
    builder: Builder, target: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[SSAValue | None, ...]:
    """Build the values of a node in torch's order; None for one that is not built.

    Raises Unsupported where nothing is registered for it, or that does not take these arguments.
    """
    lowering = LOWERINGS.get(target)
    if lowering is None:
        raise Unsupported("no operation of mu for it")
    if all(m is None or 0 in m.dims for m in builder.results):
        raise Unsupported("an empty tensor")
    try:
        built = lowering(builder, *args, **kwargs)
    except TypeRuleError as error:
        raise Unsupported(error.message) from error
    except TypeError as error:
        if found := [a for a in (*args, *kwargs.values()) if isinstance(a, Open)]:
            raise Unsupported(f"the open extent {found[0]} as a number") from error
        raise
    values = built if isinstance(built, tuple) else (built,)
    return tuple(
        None if value is None or meta is None or 0 in meta.dims else builder.fitted(value, meta)
        for value, meta in zip(values, builder.results, strict=False)
    )
