"""Interpreter of the `cutlass` dialect in float64: what a lowered program computes.

It runs launches in order over buffers, with every store rounded to its tensor's dtype. Compared with
the interpretation of the `mu` program it checks every decision of the compiler but the C++ itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.interpreter import (
    Interpreter,
    PythonValues,
    ReturnedValues,
    impl,
    impl_terminator,
    register_impls,
)
from xdsl.ir import Operation, SSAValue

from mucc.dialects.cutlass import ops as c
from mucc.dialects.cutlass.nodes import (
    BitsOp,
    ComputeOp,
    IndexOp,
    InsideOp,
    LoadOp,
    RandomNode,
    ReductionNode,
    ScatterNode,
    StoreOp,
    YieldOp,
    are_bits,
)
from mucc.dialects.mu.arrays import Arrays, arrays_for, wrapped
from mucc.dialects.mu.interpreter import (
    MuFunctions,
    argument_values,
    gathered,
    scattered,
    sizes_of,
    taken_along,
)
from mucc.dialects.mu.meanings import MEANINGS
from mucc.dialects.mu.meanings.base import along
from mucc.dialects.mu.ops.indexed import GatherOp, TakeAlongOp
from mucc.dialects.mu.ops.reduction import Reduction
from mucc.dialects.mu.ops.views import (
    ExpandOp,
    IndexMapOp,
    PermuteOp,
    RegroupOp,
    SqueezeOp,
    TransposeOp,
    inverse,
)
from mucc.dialects.mu.philox import uniform
from mucc.dialects.mu.types import Dims, dims_of
from mucc.kernels.interface import Meaning
from mucc.kernels.registry import kind_of, kinds
from mucc.library import extents


@dataclass
class Buffer:
    """Memory that launches write to; `value` is None until one has."""

    value: Any = None


class View(Buffer):
    """The memory of another buffer, whose elements `look` puts in other places and `back` puts back."""

    def __init__(self, base: Buffer, look: Callable[[Any], Any], back: Callable[[Any], Any]):
        self.base, self._look, self._back = base, look, back

    @property
    def value(self) -> Any:
        return None if self.base.value is None else self._look(self.base.value)

    @value.setter
    def value(self, value: Any) -> None:
        self.base.value = self._back(value)


@dataclass
class Indices:
    """Numbers of elements, computed where they are used: behind a pooling the space is another one."""

    compute: Callable[[], Any]


@dataclass
class Launch:
    """The device kernel being interpreted: its space, its accumulators."""

    space: tuple[int, ...]
    accumulators: tuple[Any, ...] = ()
    axes: Sequence[int] = ()
    """The axes of the space that a kernel reduces."""


def _run_kernel(
    functions: CutlassFunctions, interpreter: Interpreter, op: Operation, args: PythonValues
) -> Any:
    from xdsl.interpreter import OpImplResult

    assert isinstance(op, c.DeviceKernelOp)
    kind_of(op).interpret(functions, op, args)
    interpreter.run_ssacfg_region(op.body, (), op.stage.data)
    return OpImplResult((), None)


def _run_view(
    functions: CutlassFunctions, interpreter: Interpreter, op: Operation, args: PythonValues
) -> Any:
    from xdsl.interpreter import OpImplResult

    return OpImplResult((MEANINGS[type(op)](functions, op, tuple(map(functions.read, args))),), None)


def _run_node(meaning: Meaning) -> Any:
    def run(functions: CutlassFunctions, interpreter: Interpreter, op: Operation, args: PythonValues) -> Any:
        from xdsl.interpreter import OpImplResult

        return OpImplResult(meaning(functions, op, args), None)

    return run


@register_impls
class CutlassFunctions(MuFunctions):
    """Implementations of the `cutlass` ops, on top of those of `mu`."""

    def __init__(self, arrays: Arrays, sizes: dict[str, int]):
        super().__init__(arrays, sizes)
        self.launch = Launch(())
        self.ends: Any = None
        """The ends of groups of rows, where the kernel has some."""

    @classmethod
    def _impls(cls) -> Iterable[Any]:
        for op, run in super()._impls():
            yield op, _run_view if issubclass(op, IndexMapOp) else run
        for kind in kinds():
            yield kind.op, _run_kernel
            for node, meaning in kind.meanings().items():
                yield node, _run_node(meaning)

    @staticmethod
    def read(value: Any) -> Any:
        """Return the contents of a buffer, or the value itself. Raises ValueError before the first write."""
        if isinstance(value, Indices):
            return value.compute()
        if not isinstance(value, Buffer):
            return value
        if value.value is None:
            raise ValueError("a tensor is read before a launch has written it")
        return value.value

    def extents(self, dims: Dims) -> tuple[int, ...]:
        return extents.values(dims, self.sizes)

    def over_space(self, value: Any) -> Any:
        """Return a value broadcast to the launch's space."""
        return self.read(value) + self.arrays.full(self.launch.space, 0.0)

    def write(self, buffer: Any, type: Any, value: Any) -> None:
        """Write a value with as many elements as `type` to a buffer, rounded to the dtype."""
        buffer.value = self.stored(value.reshape(self.shape(type)), type)

    def viewed(self, value: Any, look: Callable[[Any], Any], back: Callable[[Any], Any]) -> PythonValues:
        """Return a view of a value; of a buffer, one that kernels may write as well."""
        return (View(value, look, back) if isinstance(value, Buffer) else look(value),)

    def reshaped(self, op: ExpandOp | SqueezeOp | RegroupOp, value: Any) -> PythonValues:
        """Return a view with the elements in the same order."""
        before, after = self.shape(op.operand.type), self.shape(op.result.type)
        return self.viewed(value, lambda v: v.reshape(after), lambda v: v.reshape(before))

    @impl(TransposeOp)
    def transpose(self, interpreter: Interpreter, op: TransposeOp, args: PythonValues) -> PythonValues:
        def turned(value: Any) -> Any:
            return self.arrays.xp.swapaxes(value, -1, -2)

        return self.viewed(args[0], turned, turned)

    @impl(PermuteOp)
    def permute(self, interpreter: Interpreter, op: PermuteOp, args: PythonValues) -> PythonValues:
        order = op.order.get_values()
        permute, back = self.arrays.permute, inverse(order)
        return self.viewed(args[0], lambda v: permute(v, order), lambda v: permute(v, back))

    @impl(ExpandOp)
    def expand(self, interpreter: Interpreter, op: ExpandOp, args: PythonValues) -> PythonValues:
        return self.reshaped(op, args[0])

    @impl(SqueezeOp)
    def squeeze(self, interpreter: Interpreter, op: SqueezeOp, args: PythonValues) -> PythonValues:
        return self.reshaped(op, args[0])

    @impl(RegroupOp)
    def regroup(self, interpreter: Interpreter, op: RegroupOp, args: PythonValues) -> PythonValues:
        return self.reshaped(op, args[0])

    @impl(GatherOp)
    def gather(self, interpreter: Interpreter, op: GatherOp, args: PythonValues) -> PythonValues:
        return (gathered(self.read(args[0]), self.read(args[1])),)

    @impl(TakeAlongOp)
    def take_along(self, interpreter: Interpreter, op: TakeAlongOp, args: PythonValues) -> PythonValues:
        return (taken_along(self.arrays, self.read(args[0]), self.read(args[1]), op.row_axis),)

    @impl(c.WorkspaceOp)
    def workspace(self, interpreter: Interpreter, op: c.WorkspaceOp, args: PythonValues) -> PythonValues:
        return (Buffer(),)

    def begin(self, dims: Dims, *accumulators: Any, axes: Sequence[int] = ()) -> None:
        """Begin a device kernel over a space, with values of its accumulators, or `axes` that it reduces."""
        space = self.extents(dims)
        self.launch = Launch(space, tuple(self.arrays.xp.broadcast_to(v, space) for v in accumulators), axes)

    @impl(LoadOp)
    def load(self, interpreter: Interpreter, op: LoadOp, args: PythonValues) -> PythonValues:
        return (self.read(args[0]),)

    @impl(IndexOp)
    def index(self, interpreter: Interpreter, op: IndexOp, args: PythonValues) -> PythonValues:
        return (Indices(lambda: self.indices(op.axis.value.data)),)

    @impl(InsideOp)
    def inside(self, interpreter: Interpreter, op: InsideOp, args: PythonValues) -> PythonValues:
        low, count = self.extents(op.range)

        def inside() -> Any:
            index = self.arrays.full((), 0.0) if op.axis is None else self.indices(op.axis.value.data)
            return self.arrays.xp.where((index >= low) & (index < low + count), 1.0, 0.0)

        return (Indices(inside),)

    @impl(RandomNode)
    def random(self, interpreter: Interpreter, op: RandomNode, args: PythonValues) -> PythonValues:
        seed = args[0] if args else self.arrays.full((), float(op.literal.value.data if op.literal else 0))
        shape = self.extents(dims_of(op.dims))
        numbers = uniform(self.arrays, shape, seed, op.stream.value.data)
        axes = op.axes.get_values()
        numbers = self.arrays.permute(numbers, sorted(range(len(axes)), key=lambda i: axes[i]))
        placed = [1] * len(self.launch.space)
        for extent, axis in zip(shape, axes, strict=True):
            if axis >= 0:
                placed[axis] = extent
        return (numbers.reshape(tuple(placed)),)

    def indices(self, axis: int) -> Any:
        """Return the indices along an axis of the launch's space."""
        extent, rank = self.launch.space[axis], len(self.launch.space)
        return along(extent, axis, rank, self.arrays.float64(list(range(extent))))

    @impl(BitsOp)
    def bits(self, interpreter: Interpreter, op: BitsOp, args: PythonValues) -> PythonValues:
        return (args[0],)

    @impl(ComputeOp)
    def compute(self, interpreter: Interpreter, op: ComputeOp, args: PythonValues) -> PythonValues:
        return interpreter.run_ssacfg_region(op.body, tuple(map(self.read, args)), "compute")

    @impl_terminator(YieldOp)
    def yield_scalar(self, interpreter: Interpreter, op: YieldOp, args: PythonValues):
        return ReturnedValues(args), ()

    @impl(StoreOp)
    def map_store(self, interpreter: Interpreter, op: StoreOp, args: PythonValues) -> PythonValues:
        full, type = self.over_space(args[0]), op.destination.type
        if op.part is None:
            self.write(args[1], type, full)
            return ()
        axis, low = op.part
        shape = list(self.shape(type))
        before = args[1].value
        if before is None:
            before = self.arrays.full(tuple(shape), float("nan"))
        start = extents.value(low, self.sizes)
        shape[axis] = full.shape[axis - len(shape)]
        whole = [slice(None)] * len(shape)
        whole[axis] = slice(start, start + shape[axis])
        before[tuple(whole)] = self.stored(full.reshape(tuple(shape)), type)
        args[1].value = before
        return ()

    def scatter_store(self, op: ScatterNode, args: PythonValues) -> PythonValues:
        """Store rows over what a buffer holds already."""
        full = self.stored(self.over_space(args[0]), op.destination.type)
        before, rows = self.read(args[1]) + 0.0, self.read(args[2])
        # The space may have axes of extent 1 that the tensor does not have.
        full = full.reshape((rows.shape[0], *before.shape[1:]))
        args[1].value = scattered(before, full, rows)
        return ()

    def reduced(self, op: ReductionNode, args: PythonValues, axes: Sequence[int]) -> PythonValues:
        """Store a reduction over the launch's space, shaped as the destination."""
        self.write(args[1], op.destination.type, self.reduction(op.kind.data, op.value, args[0], axes))
        return ()

    def reduction(self, kind: Reduction, node: SSAValue, value: Any, axes: Sequence[int]) -> Any:
        """Reduce the value of a node over axes of the launch's space; 32-bit integers wrap around."""
        full = self.over_space(value)
        if not are_bits(node):
            return self.arrays.reduce(kind.value, full, tuple(axes))
        return wrapped(self.arrays, self.arrays.reduce(kind.value, self.arrays.whole(full), tuple(axes)))


def interpret_program(program: c.ProgramOp, inputs: Sequence[Any]) -> list[Any]:
    """Run a lowered program on arrays; one float64 array per output.

    Raises ValueError where shapes do not fit, or a launch reads what none has written.
    """
    arrays = arrays_for(*inputs)
    args = program.body.block.args
    count = program.num_inputs.value.data
    types = [a.type for a in args[:count]]
    values = argument_values(arrays, program, types, inputs)
    sizes = sizes_of(program, types, values)
    outputs = [Buffer() for _ in args[count:]]
    module = program.parent_op()
    interpreter = Interpreter(module if isinstance(module, ModuleOp) else ModuleOp([]))
    functions = CutlassFunctions(arrays, sizes)
    interpreter.register_implementations(functions)
    interpreter.run_ssacfg_region(program.body, (*values, *outputs), program.sym_name.data)
    shapes = [functions.shape(a.type) for a in args[count:]]
    return [functions.read(o).reshape(shape) for o, shape in zip(outputs, shapes, strict=True)]
