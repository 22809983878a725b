"""Tensors in memory: pointers and strides as C++ expressions over the dims of a call."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from xdsl.ir import BlockArgument, SSAValue

from mucc.codegen.names import identifier
from mucc.dialects.cutlass.nodes import StoreNode
from mucc.dialects.cutlass.ops import DeviceKernelOp, ProgramOp, WorkspaceOp
from mucc.dialects.cutlass.views import view_of
from mucc.dialects.mu.ops.elementwise import ExtentOp
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.views import IndexMapOp, RegroupOp
from mucc.dialects.mu.types import Dim, Dims, Shaped, TensorType, dtype_bytes
from mucc.library.extents import polynomial

CUTLASS_TYPES = {
    "bf16": "cutlass::bfloat16_t",
    "f16": "cutlass::half_t",
    "f32": "float",
    "e4m3": "cutlass::float_e4m3_t",
    "e5m2": "cutlass::float_e5m2_t",
    "s8": "int8_t",
    "u8": "uint8_t",
    "s32": "int32_t",
    "s4": "cutlass::int4b_t",
    "u4": "cutlass::uint4b_t",
}
VIEW_TYPES = {
    "bf16": "mucc::bf16",
    "f16": "mucc::f16",
    "f32": "float",
    "e4m3": "mucc::e4m3",
    "e5m2": "mucc::e5m2",
    "s8": "int8_t",
    "u8": "uint8_t",
    "s32": "int32_t",
    "s4": "mucc::s4",
    "u4": "mucc::u4",
}


class EmissionError(Exception):
    """The IR cannot be emitted; an earlier pass should have rejected it."""


@dataclass(frozen=True)
class Product:
    """A product of a number and names: an extent, a stride, or a number of elements."""

    factor: int
    names: tuple[str, ...] = ()

    def __mul__(self, other: Product) -> Product:
        factor = self.factor * other.factor
        return Product(factor, tuple(sorted((*self.names, *other.names))) if factor else ())

    @property
    def is_zero(self) -> bool:
        return self.factor == 0

    @property
    def is_one(self) -> bool:
        return self.factor == 1 and not self.names

    def is_positive(self, extents: Collection[str]) -> bool:
        """Whether the product is greater than 0 where all of these extents are."""
        return self.factor > 0 and all(name in extents for name in self.names)

    def __str__(self) -> str:
        """Emit as C++; the leading name makes the arithmetic 64 bits wide."""
        numbers = [str(self.factor)] if self.factor != 1 or not self.names else []
        return " * ".join([*self.names, *numbers])


ZERO = Product(0)
ONE = Product(1)


def product(factors: Sequence[Product]) -> Product:
    """Multiply factors; 1 for none."""
    result = ONE
    for factor in factors:
        result = result * factor
    return result


@dataclass(frozen=True)
class Window:
    """Indices along an axis that have elements: `count` from `low` on."""

    axis: int
    low: Product
    count: Product


@dataclass(frozen=True)
class Memory:
    """A tensor in memory: an argument, or a slot of the workspace.

    `strides` are in elements, one per axis. `pointer` has the C++ element type left open; the first element
    is `offset` elements behind it. Where `windows` limit an axis, there are no elements elsewhere.
    """

    type: TensorType
    name: str
    pointer: str
    strides: tuple[Product, ...]
    offset: tuple[Product, ...] = ()
    windows: tuple[Window, ...] = ()

    def data(self, element: str) -> str:
        """Emit the pointer to the first element."""
        pointer = self.pointer.replace("<>", f"<{element}>")
        return " + ".join([pointer, *map(str, self.offset)])

    @property
    def address(self) -> str:
        """Emit the address of the first element, as a pointer to anything."""
        if not self.offset:
            return self.pointer.replace("<>", "")
        size = dtype_bytes(self.type.element_type)
        return f"{self.pointer.replace('<>', '<char>')} + ({' + '.join(map(str, self.offset))}) * {size}"


@dataclass(frozen=True)
class Scalar:
    """A scalar argument passed by value."""

    name: str
    expression: str


@dataclass(frozen=True)
class Axis:
    """An axis of a view: its extent and its stride, 0 along a broadcast axis."""

    extent: Dim
    stride: Product


def workspace_name(op: WorkspaceOp) -> str:
    """Name a tensor in the workspace: by the IR's hint, or by the stage that writes it."""
    if op.result.name_hint is not None:
        return op.result.name_hint
    for use in op.result.uses:
        kernel = use.operation.parent_op()
        if isinstance(use.operation, StoreNode) and isinstance(kernel, DeviceKernelOp):
            return kernel.stage.data
    return "unused"


class Places:
    """Lookup of the memory of a program's values.

    `dim_names` maps each dim to its C++ name. Dims that the program binds become numbers.
    """

    def __init__(self, program: ProgramOp, dim_names: dict[str, str]):
        self.program = program
        self.dim_names = dim_names
        self.bound = program.bound_dims

    def extent(self, dim: Dim) -> Product:
        """Convert an extent to a product."""
        if isinstance(dim, int):
            return Product(dim)
        form = polynomial(dim).with_values(self.bound)
        if form.divisor == 1 and len(form.terms) == 1:
            ((names, factor),) = form.terms
            return Product(factor, tuple(sorted(self.dim_names[name] for name in names)))
        return Product(1, (f"({form.text(self.dim_names, ' ')})",))

    def count(self, dims: Dims) -> Product:
        """Compute the number of elements of a shape."""
        return product([self.extent(d) for d in dims])

    def padded(self, extent: Dim, multiple: int) -> Product:
        """Round an extent up to a multiple of a number."""
        exact = self.extent(extent)
        if not exact.names:
            return Product(-(-exact.factor // multiple) * multiple)
        return exact if multiple == 1 else Product(1, (f"mucc::padded({exact}, {multiple})",))

    def bytes(self, type: TensorType) -> Product:
        """Compute the bytes of a tensor without run-time strides, including the padding of rows."""
        unit, padding = type.unit_axis, type.layout.padding
        extents = [self.padded(d, padding if i == unit else 1) for i, d in enumerate(type.dims)]
        return product(extents) * Product(dtype_bytes(type.element_type))

    def index(self, value: SSAValue) -> int | None:
        """Return the position of a program argument; None for a slot of the workspace."""
        if isinstance(value, BlockArgument) and value.block is self.program.body.block:
            return value.index
        return None

    def find(self, value: SSAValue) -> Memory | Scalar:
        """Return the memory of a value that is no view."""
        if isinstance(op := value.owner, ExtentOp):
            return self._number(op)
        index = self.index(value)
        if index is not None:
            name = self.program.arg_names.data[index].data
            if not isinstance(value.type, TensorType):
                return Scalar(name, f"float(c.scalar({index}))")
            return Memory(value.type, name, f"c.data<>({index})", self._strides(value.type, index))
        if isinstance(op := value.owner, WorkspaceOp):
            if op.slot is None:
                raise EmissionError("a workspace without a slot: plan-workspace has not run")
            name = workspace_name(op)
            pointer = f"mucc::at<>(c, offsets.slot{op.slot.value.data})"
            assert isinstance(value.type, TensorType)
            return Memory(value.type, name, pointer, self._strides(value.type, None))
        if isinstance(op := value.owner, RegroupOp):
            memory = self.find(op.operand)
            assert isinstance(memory, Memory) and isinstance(value.type, TensorType)
            return replace(memory, type=value.type, strides=self._strides(value.type, None))
        if isinstance(op := value.owner, IndexMapOp):
            return self._mapped(op)
        raise EmissionError(f"{value} is neither an argument of the program nor workspace")

    def _mapped(self, op: IndexMapOp) -> Memory:
        """Return the memory of an index map: that of its operand from another element on, in other steps."""
        view = view_of(op.operand)
        memory = self.find(view.base)
        assert isinstance(memory, Memory) and isinstance(op.result.type, TensorType)
        if view.rows is not None:
            raise EmissionError(f"{op.name} of gathered rows")
        strides = [ZERO if axis is None else memory.strides[axis] for axis in view.axes]
        windows = [replace(w, axis=view.axes.index(w.axis)) for w in memory.windows if w.axis in view.axes]
        offset = list(memory.offset)
        for move in op.moves:
            stride = strides[move.axis]
            if any(w.axis == move.axis for w in windows):
                raise EmissionError(f"{op.name} of a part of an axis")
            for factor, extent in move.start:
                if not (term := stride * self.extent(extent) * Product(factor)).is_zero:
                    offset.append(term)
            strides[move.axis] = stride * Product(move.step)
            if move.bounds is not None:
                windows.append(Window(move.axis, *map(self.extent, move.bounds)))
        return replace(
            memory,
            type=op.result.type,
            strides=tuple(strides),
            offset=tuple(offset),
            windows=tuple(windows),
        )

    def _number(self, op: ExtentOp) -> Scalar:
        """Return an extent as a number for kernels; an s32 as an f32 of the same bits."""
        extent = op.extent.data
        dims = {name: f"c.dims[{i}]" for i, name in enumerate(self.program.dim_names)}
        code = polynomial(extent).with_values(self.bound).text(dims, " ")
        number = f"mucc::bits_of({code})" if op.result.type == S32 else f"float({code})"
        return Scalar(identifier(f"extent_{extent}"), number)

    def _strides(self, type: TensorType, index: int | None) -> tuple[Product, ...]:
        rank = type.rank
        order = list(range(rank))
        match type.layout.kind.data:
            case "strides":
                if index is None:
                    raise EmissionError("a workspace is row_major or col_major")
                return tuple(
                    Product(1, (f"c.stride({index}, {axis})",)) if s is None else Product(s)
                    for axis, s in enumerate(type.layout.stride_values)
                )
            case "col_major" | "padded_columns":
                order[-2], order[-1] = order[-1], order[-2]
            case _:
                pass
        strides = [ONE] * rank
        padding = type.layout.padding
        for slower, faster in reversed(list(pairwise(order))):
            extent = self.padded(type.dims[faster], padding if faster == order[-1] else 1)
            strides[slower] = strides[faster] * extent
        return tuple(strides)

    def view(self, value: SSAValue, space: Dims) -> tuple[Memory, list[Axis]]:
        """Compute the view of a tensor broadcast to a space: one axis for each extent, right-aligned.

        Along the axes of an index that names its rows the tensor does not move.
        """
        view = view_of(value)
        memory = self.find(view.base)
        if not isinstance(memory, Memory):
            raise EmissionError(f"{memory.name} is a number where a tensor is needed")
        dims = Shaped.of(value.type).dims
        leading = len(dims) - len(space)
        if any(d != 1 for d in dims[: max(leading, 0)]):
            raise EmissionError(f"{memory.name} has more axes than the kernel that reads it")
        axes = [Axis(1, ZERO)] * max(-leading, 0)
        for position, dim in enumerate(dims):
            if position < leading:
                continue
            base_axis = view.axes[position]
            wanted = space[position - leading]
            if base_axis is None or (dim == 1 and wanted != 1):
                axes.append(Axis(1, ZERO))
            else:
                axes.append(Axis(dim, memory.strides[base_axis]))
        return memory, axes

    def collapse(self, what: str, space: Dims, axes: Sequence[Axis]) -> Product:
        """Compute the stride of several axes merged into one.

        Raises EmissionError where the axes do not follow each other in memory.
        """
        walked = [(e, a.stride) for e, a in zip(space, axes, strict=True) if e != 1]
        if not walked:
            return axes[-1].stride if axes else ZERO
        for (_, slower), (extent, faster) in pairwise(walked):
            if slower != faster * self.extent(extent):
                raise EmissionError(f"axes {list(space)} of {what} do not follow each other in memory")
        return walked[-1][1]
