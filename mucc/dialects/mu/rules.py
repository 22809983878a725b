"""The type rules of arithmetic, products, views and reductions.

Each rule infers a result type, and raises `TypeRuleError` with a diagnostic code where operands do not fit.
Constructors of operations call the rules; verifiers compare result types with them.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.mu.types import DTYPES, WIDE, Dim, Dims, Shaped, TensorType, dtype_name, is_packed


class TypeRuleError(VerifyException):
    """Operands do not fit an operation; `code` is the diagnostic code of the broken rule.

    `notes` are facts, `helps` are advice, as in a diagnostic.
    """

    def __init__(self, code: str, message: str, notes: Sequence[str] = (), helps: Sequence[str] = ()):
        super().__init__(message)
        self.code = code
        self.message = message
        self.notes = tuple(notes)
        self.helps = tuple(helps)


def shape_text(dims: Sequence[Dim]) -> str:
    """Print extents in the language's syntax: `[M, 4096]`."""
    return f"[{', '.join(str(d) for d in dims)}]"


def broadcast(shapes: Sequence[Dims]) -> Dims:
    """Broadcast shapes with symbolic extents by NumPy's rule: right-aligned, extents equal or 1.

    Raises TypeRuleError MU1020 where two extents differ and neither is 1.
    """
    rank = max((len(s) for s in shapes), default=0)
    result: list[Dim] = [1] * rank
    for shape in shapes:
        for axis, dim in enumerate(shape, rank - len(shape)):
            if dim == 1 or dim == result[axis]:
                continue
            if result[axis] != 1:
                both = " and ".join(shape_text(s) for s in shapes if s)
                raise TypeRuleError(
                    "MU1020",
                    f"shapes {both} do not broadcast: {result[axis]} is not {dim}",
                    notes=("extents agree when they are the same dim, the same number, or one of them is 1",),
                    helps=_broadcast_help(shapes),
                )
            result[axis] = dim
    return tuple(result)


def _broadcast_help(shapes: Sequence[Dims]) -> tuple[str, ...]:
    """Advise on shapes that do not broadcast."""
    if any(len(shape) == 1 for shape in shapes):
        return ("a vector per row needs a new axis: write `v[:, None]`",)
    matrices = [shape[-2:] for shape in shapes if len(shape) > 1]
    if len(matrices) != 2:
        return ()
    (rows, inner), (other_rows, columns) = matrices
    if (columns == 1 and other_rows == inner) or (inner == 1 and rows == columns):
        return ("a vector per column has no new axis: write `v`",)
    return ("a matrix product is written `@`",) if inner == other_rows else ()


def promote(operands: Sequence[Attribute], *, integers: bool = False) -> Attribute:
    """Infer the dtype of a result: the widest of the tensors'; rank-0 values never widen a tensor.

    Among rank-0 values, a literal or a scalar passed by value never widens a rank-0 tensor; a result of such
    scalars alone is f32. bf16 with f16 gives f32, because neither includes the other. 8-bit numbers and s32
    are converted to f32, except that s32 stays if the operation computes with `integers` and all operands are
    integers. Raises TypeRuleError MU1021 for bools.
    """
    values = [Shaped.of(t) for t in operands]
    if any(v.element_type == i1 for v in values):
        raise TypeRuleError(
            "MU1021",
            "arithmetic on a bool",
            helps=("use `where(condition, a, b)` or `cast(condition, f32)`",),
        )
    if integers and (found := {v.element_type for v in values}) <= {*INTEGERS} and DTYPES["s32"] in found:
        return DTYPES["s32"]
    tensors = [Shaped.of(t) for t in operands if isinstance(t, TensorType)]
    kinds = {v.element_type for v in [v for v in tensors if v.dims] or tensors}
    return kind if len(kinds) == 1 and (kind := kinds.pop()) in WIDE else f32


def as_type(dims: Dims, element_type: Attribute, operands: Sequence[Attribute]) -> Attribute:
    """Build a tensor type, or a scalar type where every operand is a scalar."""
    if not dims and not any(isinstance(t, TensorType) for t in operands):
        return element_type
    return TensorType.of(dims, element_type)


def elementwise(operands: Sequence[Attribute], *, integers: bool = False) -> Attribute:
    """Infer the type of arithmetic: broadcast the shapes, promote the dtypes."""
    values = [Shaped.of(t) for t in operands]
    return as_type(broadcast([v.dims for v in values]), promote(operands, integers=integers), operands)


def quotient(operands: Sequence[Attribute]) -> Attribute:
    """Infer the type of `a / b`. Raises TypeRuleError MU1029 for integers."""
    if promote(operands, integers=True) == DTYPES["s32"]:
        raise TypeRuleError(
            "MU1029",
            "`/` of integers: the quotient of two integers is no integer",
            helps=("write `floor_divide(a, b)` to round it down, or divide floats: `cast(a, f32) / b`",),
        )
    return elementwise(operands)


def bitwise(operands: Sequence[Attribute]) -> Attribute:
    """Infer the type of an operation on bits: an s32 of the broadcast shape.

    Raises TypeRuleError MU1030 for operands other than integers.
    """
    values = [Shaped.of(t) for t in operands]
    for value in values:
        if value.element_type not in INTEGERS:
            helps = ("write `cast(x, s32)`, which rounds to the nearest integer",)
            if value.element_type == i1:
                helps = ("write `and`, `or` and `not` for bools",)
            notes = (f"literals are whole numbers from {-(2**31)} to {2**31 - 1}",)
            raise TypeRuleError("MU1030", f"expected integers, got {value}", notes, helps)
    return as_type(broadcast([v.dims for v in values]), DTYPES["s32"], operands)


def compare(lhs: Attribute, rhs: Attribute) -> Attribute:
    """Infer the type of a comparison of numbers: a bool of the broadcast shape."""
    values = [Shaped.of(lhs), Shaped.of(rhs)]
    promote((lhs, rhs))
    return as_type(broadcast([v.dims for v in values]), i1, (lhs, rhs))


def logical(operands: Sequence[Attribute]) -> Attribute:
    """Infer the type of `and`, `or`, `not`. Raises TypeRuleError MU1022 for operands other than bools."""
    values = [Shaped.of(t) for t in operands]
    for value in values:
        if value.element_type != i1:
            raise TypeRuleError(
                "MU1022",
                f"expected a bool, got {value}",
                helps=("compare first, for example `x > 0`",),
            )
    return as_type(broadcast([v.dims for v in values]), i1, operands)


def select(condition: Attribute, on_true: Attribute, on_false: Attribute) -> Attribute:
    """Infer the type of `where(condition, a, b)`: the condition is a bool, the three shapes broadcast.

    Both sides are numbers, or both are bools.
    """
    logical([condition])
    values = [Shaped.of(on_true), Shaped.of(on_false)]
    dims = broadcast([Shaped.of(condition).dims, *(v.dims for v in values)])
    is_bool = all(v.element_type == i1 for v in values)
    chosen = i1 if is_bool else promote((on_true, on_false), integers=True)
    return as_type(dims, chosen, (condition, on_true, on_false))


def not_packed(value: Shaped) -> None:
    """Raise TypeRuleError MU1066 for packed 4-bit numbers, which kernels can read but not store."""
    if is_packed(value.element_type):
        raise TypeRuleError(
            "MU1066",
            f"{value} is stored nowhere but in the parameter that it comes from",
            helps=("convert it: `cast(..., s8)`",),
        )


def stored(operand: Attribute) -> TensorType:
    """Infer the type of a stored value, which is row-major. Raises TypeRuleError MU1017 for bools."""
    value = Shaped.of(operand)
    if value.element_type == i1:
        raise TypeRuleError("MU1017", "a bool cannot be stored")
    not_packed(value)
    return TensorType.of(value.dims, value.element_type)


def cast(operand: Attribute, element_type: Attribute) -> Attribute:
    """Infer the type of a cast: the same shape with another dtype."""
    value = Shaped.of(operand)
    return as_type(value.dims, element_type, (operand,))


def matmul(lhs: Attribute, rhs: Attribute) -> TensorType:
    """Infer `[..., M, K] @ [..., K, N]`, which is `[..., M, N]`; leading axes broadcast.

    The result has the operands' dtype, f32 for 8-bit floats and s32 for 8-bit integers. Raises TypeRuleError
    MU1023 (rank), MU1024 (inner extents), MU1025 and MU1060 (dtypes), MU1081 (sparse operands).
    """
    a, b = Shaped.of(lhs), Shaped.of(rhs)
    for side, value in (("left", a), ("right", b)):
        if len(value.dims) < 2:
            raise TypeRuleError(
                "MU1023",
                f"the {side} operand of @ needs at least two axes, got {value}",
                helps=(
                    "make a matrix of a vector: `(w @ v[:, None])[:, 0]` or `(v[None, :] @ w)[0]`; "
                    "of two vectors write `sum(a * b)`",
                ),
            )
    if a.dims[-1] != b.dims[-2]:
        helps: tuple[str, ...] = ()
        if a.dims[-1] == b.dims[-1]:
            helps = ("the right operand has the inner extent last: transpose it with `.T`",)
        elif a.dims[-2] == b.dims[-2]:
            helps = ("the left operand has the inner extent first: transpose it with `.T`",)
        raise TypeRuleError(
            "MU1024",
            f"inner extents of @ differ: {shape_text(a.dims)} @ {shape_text(b.dims)} "
            f"has {a.dims[-1]} against {b.dims[-2]}",
            helps=helps,
        )
    element_type = product_type(a.element_type, b.element_type)
    sparse_product(lhs, rhs)
    try:
        batch = broadcast([a.dims[:-2], b.dims[:-2]])
    except TypeRuleError as e:
        raise TypeRuleError(
            "MU1026", f"batch extents of @ differ: {shape_text(a.dims)} @ {shape_text(b.dims)}"
        ) from e
    return TensorType.of((*batch, a.dims[-2], b.dims[-1]), element_type)


def is_sparse(type: Attribute) -> bool:
    """Whether a type is a 2:4 sparse matrix, stored without its zeros."""
    return isinstance(type, TensorType) and type.is_sparse


def sparse_product(lhs: Attribute, rhs: Attribute) -> None:
    """Check sparse operands of a product: only one, of two matrices of one dtype, with the pattern along K.

    Raises TypeRuleError MU1081.
    """
    first, second = is_sparse(lhs), is_sparse(rhs)
    if not first and not second:
        return
    a, b = Shaped.of(lhs), Shaped.of(rhs)
    if first and second:
        raise TypeRuleError("MU1081", "both operands of @ are sparse, but only one can be")
    if len(a.dims) != 2 or len(b.dims) != 2:
        raise TypeRuleError(
            "MU1081",
            "a sparse matrix multiplies with a matrix: "
            f"{shape_text(a.dims)} @ {shape_text(b.dims)} has batches",
            helps=("give the other operand two axes, `x: bf16[M, K]`",),
        )
    assert isinstance(lhs, TensorType) and isinstance(rhs, TensorType)
    if (first and lhs.unit_axis != 1) or (second and rhs.unit_axis != 0):
        raise TypeRuleError(
            "MU1081",
            "the 2:4 pattern of a sparse operand of @ lies along K",
            helps=("write `x @ w.T` with `w: bf16[N, K] sparse`, or `w @ x` with `w: bf16[M, K] sparse`",),
        )
    if a.element_type != b.element_type:
        raise TypeRuleError(
            "MU1081",
            f"a sparse matrix multiplies with its own dtype, not {dtype_name(a.element_type)} "
            f"with {dtype_name(b.element_type)}",
        )


def dense(operands: Sequence[Attribute]) -> None:
    """Check that no operand is sparse, for all operations but `@` and `.T`. Raises TypeRuleError MU1080."""
    if sparse := next((t for t in operands if is_sparse(t)), None):
        raise TypeRuleError(
            "MU1080",
            f"{sparse} can be an operand of @ only",
            notes=("of a sparse matrix only the values that the 2:4 pattern leaves are in memory",),
            helps=("leave `sparse` out: a dense parameter can be used anywhere",),
        )


INTEGERS = tuple(DTYPES[name] for name in ("s4", "u4", "s8", "u8", "s32"))
NARROW_FLOATS = (DTYPES["e4m3"], DTYPES["e5m2"])
NARROW_INTEGERS = (DTYPES["s8"], DTYPES["u8"])
WEIGHTS = (*NARROW_FLOATS, *NARROW_INTEGERS, DTYPES["s4"], DTYPES["u4"])
"""The dtypes of weights that 16-bit activations multiply with."""
HALVES = (DTYPES["bf16"], DTYPES["f16"])


def product_type(lhs: Attribute, rhs: Attribute) -> Attribute:
    """Infer the dtype of a product of matrices.

    bf16, f16 and f32 multiply with themselves; e4m3 and e5m2 with each other, to f32; s8 and u8 with each
    other, to s32; bf16 and f16 also with all dtypes of 4 and 8 bits, whose values they represent exactly.
    Raises TypeRuleError MU1060 for dtypes that cannot be multiplied, MU1025 for other pairs.
    """
    if lhs == rhs and lhs in WIDE:
        return lhs
    for wide, other in ((lhs, rhs), (rhs, lhs)):
        if wide in HALVES and other in WEIGHTS:
            return wide
    if lhs in NARROW_FLOATS and rhs in NARROW_FLOATS:
        return f32
    if lhs in NARROW_INTEGERS and rhs in NARROW_INTEGERS:
        return DTYPES["s32"]
    factors = (*WIDE, *WEIGHTS)
    for type, other in ((lhs, rhs), (rhs, lhs)):
        if type not in factors or (lhs == rhs and is_packed(type)):
            helps = ("convert both: `cast(..., f32)`, which is exact for integers up to 2^24",)
            if other in WIDE:
                helps = (f"convert it: `cast(..., {dtype_name(other)})`", *(helps if other != f32 else ()))
            raise TypeRuleError(
                "MU1060",
                f"{dtype_name(type)} operands cannot be multiplied by @",
                notes=("matrices of bf16, f16, f32, e4m3, e5m2, s8 and u8 can",),
                helps=helps,
            )
    helps = (f"convert one: `cast(..., {dtype_name(lhs)})`",)
    if half := {lhs: rhs, rhs: lhs}.get(f32) if {lhs, rhs} & set(HALVES) else None:
        rounding = f"round the f32 operand, as results of reductions are: `cast(..., {dtype_name(half)})`"
        helps = (f"{rounding}; or convert the other one: `cast(..., f32)`",)
    raise TypeRuleError(
        "MU1025",
        f"operands of @ have dtypes {dtype_name(lhs)} and {dtype_name(rhs)}, but both must have the same one",
        notes=(
            "e4m3 and e5m2 also multiply with each other, s8 and u8 too; bf16 and f16 with all, s4 and u4",
        ),
        helps=helps,
    )


def narrow_side(lhs: Attribute, rhs: Attribute) -> int | None:
    """Find the operand (0 or 1) with weights of 4 or 8 bits next to a 16-bit operand; None without one."""
    types = [Shaped.of(lhs).element_type, Shaped.of(rhs).element_type]
    for side in (0, 1):
        if types[side] in WEIGHTS and types[1 - side] in HALVES:
            return side
    return None


def transpose(operand: Attribute) -> TensorType:
    """Infer `.T`: swap the last two axes. Raises TypeRuleError MU1027 below rank 2."""
    value = Shaped.of(operand)
    if len(value.dims) < 2:
        raise TypeRuleError(
            "MU1027",
            f"`.T` needs at least two axes, got {value}",
            helps=("a vector has no transpose; `v[:, None]` makes it a column",),
        )
    layout = operand.layout.transposed(len(value.dims)) if isinstance(operand, TensorType) else None
    return TensorType.of((*value.dims[:-2], value.dims[-1], value.dims[-2]), value.element_type, layout)


def expand(operand: Attribute, axes: Sequence[int]) -> TensorType:
    """Insert axes of extent 1 at the given positions of the result (`v[:, None]`)."""
    value = Shaped.of(operand)
    dims: list[Dim] = list(value.dims)
    for axis in sorted(axes):
        dims.insert(axis, 1)
    return TensorType.of(dims, value.element_type)


def squeeze(operand: Attribute, axes: Sequence[int]) -> TensorType:
    """Drop axes of extent 1 (`x[:, 0]`), given by their positions. Raises TypeRuleError MU1090 for others."""
    value = Shaped.of(operand)
    if long := [axis for axis in axes if value.dims[axis] != 1]:
        raise TypeRuleError("MU1090", f"axis {long[0]} of {value} cannot be dropped: its extent is not 1")
    layout = operand.layout.squeezed(len(value.dims), axes) if isinstance(operand, TensorType) else None
    dims = [d for i, d in enumerate(value.dims) if i not in axes]
    return TensorType.of(dims, value.element_type, layout)


def broadcast_to(operand: Attribute, dims: Dims) -> TensorType:
    """Broadcast a value to the given extents. Raises TypeRuleError MU1020."""
    value = Shaped.of(operand)
    if broadcast([value.dims, dims]) != dims:
        raise TypeRuleError("MU1020", f"{value} does not broadcast to {shape_text(dims)}")
    return TensorType.of(dims, value.element_type)


def normalise_axes(axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Convert axes to sorted positions from the front; None means all axes. Raises TypeRuleError MU1028."""
    if axes is None:
        return tuple(range(rank))
    result: list[int] = []
    for axis in axes:
        if not -rank <= axis < rank:
            raise TypeRuleError("MU1028", f"axis {axis} is out of range for {rank} axes")
        result.append(axis % rank)
    if len(set(result)) != len(result):
        raise TypeRuleError("MU1028", f"axis given twice in {tuple(axes)}")
    return tuple(sorted(result))


def reduce(
    operand: Attribute, axes: Sequence[int], is_logical: bool = False, is_exact: bool = False
) -> TensorType:
    """Drop the reduced axes; the dtype is f32, s32 for exact reductions of s32, bool for logical ones."""
    value = Shaped.of(operand)
    if is_logical:
        logical([operand])
    elif value.element_type == i1:
        raise TypeRuleError(
            "MU1021", "reduction of a bool", helps=("count with `sum(cast(condition, f32))`",)
        )
    kept = tuple(d for i, d in enumerate(value.dims) if i not in set(axes))
    if is_logical:
        return TensorType.of(kept, i1)
    return TensorType.of(
        kept, value.element_type if value.element_type == DTYPES["s32"] and is_exact else f32
    )
