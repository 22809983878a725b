"""The interpreter of the `mu` dialect, in float64: the reference semantics of the language.

Values are float64 arrays, or bool arrays for conditions. Arithmetic is exact to float64. Rounding happens
only where the language specifies it: in casts, at pinned stages, and in the stores of formed stages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp, f32, i1
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    ReturnedValues,
    impl,
    impl_terminator,
    register_impls,
)
from xdsl.ir import Attribute, Operation, SSAValue

from mucc.dialects.mu import rules, scale_rules
from mucc.dialects.mu.arrays import Arrays, arrays_for, unpacked, wrapped
from mucc.dialects.mu.entry import EntryOp
from mucc.dialects.mu.meanings import MEANINGS
from mucc.dialects.mu.meanings.elementwise import RULES
from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.contraction import GroupedMatmulOp, MatmulOp
from mucc.dialects.mu.ops.indexed import GatherOp, ScatterOp, TakeAlongOp
from mucc.dialects.mu.ops.kernel import KernelOp, ReturnOp
from mucc.dialects.mu.ops.normalisation import LogSoftmaxOp, LogSumExpOp, NormalizeOp, SoftmaxOp
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.quantization import DequantizeOp
from mucc.dialects.mu.ops.reduction import ReduceOp, VarianceOp
from mucc.dialects.mu.ops.stage import PinOp, StageOp, YieldOp
from mucc.dialects.mu.ops.views import VIEWS, BroadcastOp, ExpandOp, RegroupOp, SqueezeOp, TransposeOp
from mucc.dialects.mu.types import Shaped, TensorType, dtype_name, is_packed
from mucc.library import extents
from mucc.library.errors import MuccTypeError, MuccValueError

ON_FLOATS = (SoftmaxOp, LogSoftmaxOp, LogSumExpOp, NormalizeOp, VarianceOp)
"""Operations on whole tensors that round integers to f32 first."""


def _run_elementwise(
    functions: MuFunctions, interpreter: Interpreter, op: Operation, args: PythonValues
) -> Any:
    from xdsl.interpreter import OpImplResult

    assert isinstance(op, e.ElementwiseOp)
    return OpImplResult((functions.elementwise(op, functions.converted(op, args)),), None)


def _run_meaning(functions: MuFunctions, interpreter: Interpreter, op: Operation, args: PythonValues) -> Any:
    from xdsl.interpreter import OpImplResult

    if isinstance(op, ON_FLOATS):
        args = functions.as_floats(op, args)
    return OpImplResult((MEANINGS[type(op)](functions, op, args),), None)


@register_impls
class MuFunctions(InterpreterFunctions):
    """Implement every `mu` op on arrays of one library; `sizes` are the values of the kernel's dims."""

    def __init__(self, arrays: Arrays, sizes: dict[str, int]):
        self.arrays = arrays
        self.sizes = sizes

    @classmethod
    def _impls(cls) -> Iterable[Any]:
        own = list(super()._impls())
        yield from own
        known = {op_type for op_type, _ in own}  # a subclass may implement some on values other than arrays
        for op_type in RULES.keys() - known:
            yield op_type, _run_elementwise
        for op_type in MEANINGS.keys() - known:
            yield op_type, _run_meaning

    def given(self, value: Any) -> Any:
        """Return an argument of the kernel as the operations take values."""
        return value

    def converted(self, op: e.ElementwiseOp, args: PythonValues) -> PythonValues:
        """Return operands as an op computes with them: s32 is rounded to f32 for arithmetic on floats."""
        is_whole = op.computes_integers or Shaped.of(op.result.type).element_type == S32
        return args if is_whole else self.as_floats(op, args)

    def as_floats(self, op: Operation, args: PythonValues) -> PythonValues:
        """Return operands with those of s32 rounded to f32."""
        wide = [Shaped.of(v.type).element_type == S32 for v in op.operands]
        return tuple(self.arrays.round_to(x, "f32") if w else x for w, x in zip(wide, args, strict=True))

    def elementwise(self, op: e.ElementwiseOp, args: PythonValues) -> Any:
        """Return the result of an elementwise op."""
        return elementwise(self.arrays, op, args)

    def factor(self, op: Operation, operand: SSAValue, value: Any) -> Any:
        """Return an operand as a product reads it: a computed value is rounded to its dtype first."""
        return value if is_parameter(operand) else self.narrowed(value, operand.type)

    def passed(self, stage: StageOp, value: Any, type: Any) -> Any:
        """Return a stage's result as other stages read it."""
        return self.stored(value, type)

    def narrowed(self, value: Any, type: Any) -> Any:
        """Round a computed value to its dtype if that is narrower than f32, as for operands of products."""
        return value if Shaped.of(type).element_type == f32 else self.stored(value, type)

    @impl(e.ConstantOp)
    def constant(self, interpreter: Interpreter, op: e.ConstantOp, args: PythonValues) -> PythonValues:
        return (self.arrays.full((), op.value.value.data),)

    @impl(e.ExtentOp)
    def extent(self, interpreter: Interpreter, op: e.ExtentOp, args: PythonValues) -> PythonValues:
        return (self.arrays.full((), float(extents.value(op.extent.data, self.sizes))),)

    @impl(MatmulOp)
    def matmul(self, interpreter: Interpreter, op: MatmulOp, args: PythonValues) -> PythonValues:
        args = (*(self.factor(op, v, x) for v, x in zip(op.operands[:2], args[:2], strict=True)), *args[2:])
        if op.mixed is not None:
            side = rules.narrow_side(op.lhs.type, op.rhs.type)
            wide = Shaped.of(op.result.type).element_type
            return (self.mixed_product(args[0], args[1], args[2:], op.group, side or 0, wide),)
        return (self.product(args[0], args[1], args[2:], op.blocks),)

    def mixed_product(
        self, a: Any, b: Any, scales: Sequence[Any], group: int, side: int, wide: Attribute
    ) -> Any:
        """Multiply matrices; the narrow operand at `side` is scaled by groups along K, then rounded."""
        if not scales:
            return a @ b
        operands = [a, b]
        scale, *zeros = (self.arrays.repeat(s, group, 1) for s in scales)
        rows = self.arrays.xp.swapaxes(b, -1, -2) if side else a
        weights = ((rows - zeros[0]) if zeros else rows) * scale
        weights = self.dequantized(weights, wide, zeros)
        operands[side] = self.arrays.xp.swapaxes(weights, -1, -2) if side else weights
        return operands[0] @ operands[1]

    def dequantized(self, weights: Any, wide: Attribute, zeros: Sequence[Any]) -> Any:
        """Return scaled weights as a product reads them; `zeros` were subtracted before."""
        return self.arrays.round_to(weights, dtype_name(wide))

    def product(self, a: Any, b: Any, scales: Sequence[Any], blocks: tuple[int, int] | None) -> Any:
        """Multiply matrices with block scales; each scale is for a block of `blocks` rows and 128 columns."""
        if blocks is None:
            return a @ b
        repeated = [
            self.arrays.repeat(self.arrays.repeat(s, rows, 0), scale_rules.BLOCK, 1)
            for s, rows in zip(scales, blocks, strict=True)
        ]
        return (a * repeated[0]) @ (b * self.arrays.xp.swapaxes(repeated[1], -1, -2))

    @impl(GroupedMatmulOp)
    def grouped_matmul(
        self, interpreter: Interpreter, op: GroupedMatmulOp, args: PythonValues
    ) -> PythonValues:
        a, b = (self.factor(op, v, x) for v, x in zip(op.operands[:2], args[:2], strict=True))
        product = grouped_product(self.arrays, a, b, args[2])
        more = iter(args[3:])
        if op.scale is not None:
            product = product * by_group(next(more), args[2])[:, None]
        if op.bias is not None:
            product = product + by_group(next(more), args[2])
        return (product,)

    @impl(GatherOp)
    def gather(self, interpreter: Interpreter, op: GatherOp, args: PythonValues) -> PythonValues:
        return (gathered(args[0], args[1]),)

    @impl(TakeAlongOp)
    def take_along(self, interpreter: Interpreter, op: TakeAlongOp, args: PythonValues) -> PythonValues:
        return (taken_along(self.arrays, args[0], args[1], op.row_axis),)

    @impl(ScatterOp)
    def scatter(self, interpreter: Interpreter, op: ScatterOp, args: PythonValues) -> PythonValues:
        result = self.arrays.full(self.shape(op.result.type), 0.0)
        return (scattered(result, self.broadcast_full(args[0], op.operand.type), args[1]),)

    def broadcast_full(self, value: Any, type: Any) -> Any:
        """Broadcast a value to the full shape of its type."""
        return broadcast_full(self.arrays, value, self.shape(type))

    @impl(TransposeOp)
    def transpose(self, interpreter: Interpreter, op: TransposeOp, args: PythonValues) -> PythonValues:
        return (self.arrays.xp.swapaxes(args[0], -1, -2),)

    @impl(ExpandOp)
    def expand(self, interpreter: Interpreter, op: ExpandOp, args: PythonValues) -> PythonValues:
        return (self.expanded(op, args[0]),)

    @impl(SqueezeOp)
    def squeeze(self, interpreter: Interpreter, op: SqueezeOp, args: PythonValues) -> PythonValues:
        return (self.squeezed(op, args[0]),)

    @impl(BroadcastOp)
    def broadcast(self, interpreter: Interpreter, op: BroadcastOp, args: PythonValues) -> PythonValues:
        shape = self.shape(op.result.type)
        return (self.arrays.xp.broadcast_to(args[0], shape),)

    @impl(RegroupOp)
    def regroup(self, interpreter: Interpreter, op: RegroupOp, args: PythonValues) -> PythonValues:
        return (args[0].reshape(self.shape(op.result.type)),)

    @impl(DequantizeOp)
    def dequantize(self, interpreter: Interpreter, op: DequantizeOp, args: PythonValues) -> PythonValues:
        weights, *scaling = args
        shape = tuple(weights.shape)
        grouped = weights.reshape((*shape[:-1], -1, op.group))
        scales, *zeros = (v.reshape((*v.shape, 1)) for v in scaling)
        value = ((grouped - zeros[0]) if zeros else grouped) * scales
        return (self.stored(value.reshape(shape), op.result.type),)

    @impl(ReduceOp)
    def reduce(self, interpreter: Interpreter, op: ReduceOp, args: PythonValues) -> PythonValues:
        return (self.reduced_over(op, args[0]),)

    def reduced_over(self, op: ReduceOp, value: Any) -> Any:
        axes, kind = op.axes.get_values(), op.kind.data.value
        if Shaped.of(op.result.type).element_type != S32:
            (value,) = self.as_floats(op, (value,))
            return self.arrays.reduce(kind, value, axes)
        return wrapped(self.arrays, self.arrays.reduce(kind, self.arrays.whole(value), axes))

    @impl(PinOp)
    def pin(self, interpreter: Interpreter, op: PinOp, args: PythonValues) -> PythonValues:
        return (self.stored(args[0], op.result.type),)

    @impl(StageOp)
    def stage(self, interpreter: Interpreter, op: StageOp, args: PythonValues) -> PythonValues:
        values = interpreter.run_ssacfg_region(op.body, (), op.stage_name.data)
        return tuple(self.passed(op, v, r.type) for v, r in zip(values, op.outputs, strict=True))

    @impl_terminator(YieldOp)
    def yield_(self, interpreter: Interpreter, op: YieldOp, args: PythonValues):
        return ReturnedValues(args), ()

    @impl_terminator(ReturnOp)
    def return_(self, interpreter: Interpreter, op: ReturnOp, args: PythonValues):
        return ReturnedValues(args), ()

    @staticmethod
    def expanded(op: ExpandOp, value: Any) -> Any:
        """Insert axes of extent 1."""
        shape = list(value.shape)
        for axis in op.axes.get_values():
            shape.insert(axis, 1)
        return value.reshape(tuple(shape))

    @staticmethod
    def squeezed(op: SqueezeOp, value: Any) -> Any:
        """Drop axes of extent 1."""
        dropped = op.axes.get_values()
        return value.reshape(tuple(n for axis, n in enumerate(value.shape) if axis not in dropped))

    def shape(self, type: Any) -> tuple[int, ...]:
        """Return the run-time extents of a tensor type."""
        return extents.values(Shaped.of(type).dims, self.sizes)

    def stored(self, value: Any, type: Any) -> Any:
        """Round a value as a store with this type does."""
        return self.arrays.round_to(value, dtype_name(Shaped.of(type).element_type))


def elementwise(arrays: Arrays, op: e.ElementwiseOp, args: Sequence[Any]) -> Any:
    """Apply an elementwise op to arrays, of integers with 32 bits where the op computes these."""
    rule = RULES[type(op)]
    if not op.computes_integers:
        return rule(arrays, op, tuple(args))
    value = rule(arrays, op, tuple(arrays.whole(v) for v in args))
    return value if Shaped.of(op.result.type).element_type == i1 else wrapped(arrays, value)


def broadcast_full(arrays: Arrays, value: Any, shape: Sequence[int]) -> Any:
    """Broadcast a value to a shape, as a new float64 array."""
    return value + arrays.full(shape, -0.0)  # a sum with 0.0 would lose the sign of -0.0


def is_parameter(value: SSAValue) -> bool:
    """Whether a value is a parameter of the kernel, or a view of one."""
    while isinstance(view := value.owner, VIEWS):
        value = view.operand
    return not isinstance(value.owner, Operation)


def indices(values: Any) -> list[int]:
    """Convert a float64 array to a flat list of indices."""
    return [int(v) for v in values.reshape(-1).tolist()]


def grouped_product(arrays: Arrays, lhs: Any, rhs: Any, offsets: Any) -> Any:
    """Multiply each group of rows with the group's matrix.

    Raises MuccValueError MU6022, MU6023 for bad offsets.
    """
    ends = indices(offsets)
    rows = int(lhs.shape[0])
    result = arrays.full((rows, int(rhs.shape[-1])), 0.0)
    begin = 0
    for group, end in enumerate(ends):
        if end < begin:
            raise MuccValueError("MU6022", f"offsets decrease: offsets[{group}] = {end} after {begin}")
        if end > rows:
            raise MuccValueError("MU6023", f"offsets[{group}] = {end} exceeds the {rows} rows")
        result[begin:end] = lhs[begin:end] @ rhs[group]
        begin = end
    if begin != rows:
        raise MuccValueError("MU6023", f"the last group ends at {begin}, but there are {rows} rows")
    return result


def by_group(value: Any, offsets: Any) -> Any:
    """Repeat the entry of each group for all rows of the group; `offsets` must be valid."""
    ends = indices(offsets)
    return value[[g for g, end in enumerate(ends) for _ in range(end - (ends[g - 1] if g else 0))]]


def gathered(value: Any, rows: Any) -> Any:
    """Gather entries along the first axis. Raises MuccValueError MU6024 for an index out of range."""
    numbers = indices(rows)
    _check_rows(numbers, int(value.shape[0]))
    return value[numbers].reshape((*rows.shape, *value.shape[1:]))


def taken_along(arrays: Arrays, value: Any, rows: Any, axis: int) -> Any:
    """Take elements along an axis by index. Raises MuccValueError MU6024 for an index out of range."""
    _check_rows(indices(rows), int(value.shape[axis]))
    return arrays.take_along(value, rows, axis)


def scattered(result: Any, value: Any, rows: Any) -> Any:
    """Scatter the rows of `value` into `result`, and return it.

    Raises MuccValueError MU6024 for an index out of range, MU6025 for a repeated index.
    """
    numbers = indices(rows)
    _check_rows(numbers, int(result.shape[0]))
    if len(set(numbers)) != len(numbers):
        raise MuccValueError("MU6025", "scatter names a row twice")
    result[numbers] = value
    return result


def _check_rows(numbers: Sequence[int], count: int) -> None:
    for i, number in enumerate(numbers):
        if not 0 <= number < count:
            raise MuccValueError("MU6024", f"rows[{i}] = {number} is none of the {count} rows")


def argument_values(arrays: Arrays, entry: EntryOp, types: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Convert inputs to float64; bytes for a parameter of packed 4-bit elements are unpacked.

    Raises MuccTypeError MU6002 for what is no number and no array of numbers.
    """
    values: list[Any] = []
    for index, (wanted, given) in enumerate(zip(types, inputs, strict=True)):
        try:
            if given is None or isinstance(given, str | bytes):
                raise TypeError("text")
            value = arrays.float64(given)
        except (TypeError, ValueError) as error:
            about = f"argument '{entry.arg_names.data[index].data}' of {entry.sym_name.data}"
            got = type(given).__name__
            raise MuccTypeError("MU6002", f"{about}: expected {wanted}, got a value of type {got}") from error
        is_bytes = str(getattr(given, "dtype", "")).endswith("int8")
        if is_bytes and isinstance(wanted, TensorType) and is_packed(wanted.element_type):
            value = unpacked(arrays.xp, value, wanted.dtype)
        values.append(value)
    return values


def sizes_of(entry: EntryOp, types: Sequence[Any], values: Sequence[Any]) -> dict[str, int]:
    """Infer the value of every dim from the shapes of an entry's arguments, or of its first ones.

    Raises MuccValueError MU6004, MU6006 and MU6007, as calls of built kernels do.
    """
    kernel = entry.sym_name.data
    shapes: list[tuple[int, ...]] = []
    for name, type, value in zip(entry.arg_names, types, values, strict=False):
        shape = tuple(int(n) for n in value.shape) if isinstance(type, TensorType) else ()
        about = f"argument '{name.data}' of {kernel}"
        if isinstance(type, TensorType) and len(shape) != type.rank:
            raise MuccValueError("MU6004", f"{about}: expected {type}, got an array of shape {shape}")
        if 0 in shape:
            dim = Shaped.of(type).dims[shape.index(0)]
            raise MuccValueError("MU6007", f"{about}: extent {dim} is 0 in an array of shape {shape}")
        shapes.append(shape)
    try:
        return extents.bind([Shaped.of(type).dims for type in types], shapes)
    except extents.ExtentError as error:
        raise MuccValueError("MU6006", f"arguments of {kernel}: {error}") from error


def check_count(entry: EntryOp, inputs: Sequence[Any]) -> None:
    """Raise MuccTypeError MU6040 for too few or too many arguments."""
    names = [name.data for name in entry.arg_names]
    if len(inputs) != len(names):
        message = f"{entry.sym_name.data} has {len(names)} parameters ({', '.join(names)}), got {len(inputs)}"
        raise MuccTypeError("MU6040", message)


def interpret_kernel(
    kernel: KernelOp,
    inputs: Sequence[Any],
    meaning: Callable[[Arrays, dict[str, int]], MuFunctions] = MuFunctions,
) -> list[Any]:
    """Run a kernel on arrays (NumPy or torch, any real dtype; scalars may be Python numbers).

    Parameters of packed 4-bit elements take bytes, as a compiled kernel does, or one number per element.
    `meaning` implements the operations. Returns one float64 array per result, or what else `meaning` computes
    with, of the full shape that the kernel declares. Raises MuccValueError where shapes do not fit.
    """
    arrays = arrays_for(*inputs)
    types = [a.type for a in kernel.body.block.args]
    values = argument_values(arrays, kernel, types, inputs)
    sizes = sizes_of(kernel, types, values)
    module = kernel.parent_op()
    interpreter = Interpreter(module if isinstance(module, ModuleOp) else ModuleOp([]))
    functions = meaning(arrays, sizes)
    interpreter.register_implementations(functions)
    arguments = tuple(map(functions.given, values))
    results = interpreter.run_ssacfg_region(kernel.body, arguments, kernel.sym_name.data)
    types = kernel.output_types
    return [
        broadcast_full(functions.arrays, r, functions.shape(t)) for r, t in zip(results, types, strict=True)
    ]
