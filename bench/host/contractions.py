"""Stand-ins for contractions, whose kernels CUTLASS computes on a GPU.

A stand-in multiplies what the program's description of the problem points to, by the strides that the
kernel's types fix or the description gives, and refuses what TMA would not map.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Operation, SSAValue

from mucc.codegen.memory import VIEW_TYPES, ZERO, Product
from mucc.codegen.reductions import REDUCTIONS
from mucc.dialects.cutlass.nodes import ComputeOp, InsideOp, LoadNode, ReductionNode, ScatterNode
from mucc.dialects.mu.schedule_attributes import Mainloop
from mucc.dialects.mu.types import TensorType, dtype_bits
from mucc.kernels.gemm.emission.gemm import Gemm
from mucc.kernels.gemm.emission.graph import ordered
from mucc.kernels.gemm.emission.lean import LeanEpilogue
from mucc.kernels.gemm.emission.problem import Matrix
from mucc.kernels.gemm.nodes import AccFetchOp, AuxLoadOp, AuxStoreOp, GroupReduceOp, GroupStoreOp, SrcFetchOp


class NotOnHost(Exception):
    """A program with a kernel that the host has nothing for."""


def _terms(strides: Sequence[Product], unit: int | None, place: str, names: Sequence[str]) -> str:
    """Emit the offset of an element, given its coordinates; the axis `unit` has a stride of 1."""
    terms = ["0"]
    for i, (stride, name) in enumerate(zip(strides, names, strict=True)):
        if i == unit:
            terms.append(name)
        elif not stride.is_zero:
            terms.append(f"{name} * {place}.stride[{i}]")
    return " + ".join(terms)


def _read(matrix: Matrix, place: str, names: str) -> str:
    """Emit a read of an element of a matrix as f32, given its coordinates."""
    element = VIEW_TYPES[matrix.memory.type.dtype]
    return f"mucc::widen({place}.as<{element}>()[{_terms(matrix.strides, matrix.unit, place, names)}])"


def _loads(gemm: Gemm) -> Iterator[str]:
    """Emit what a body reads besides the accumulator, in the order of its parameters."""
    loads = [op for op in ordered(gemm.op.nodes) if isinstance(op, LoadNode | InsideOp)]
    lean = isinstance(gemm.epilogue, LeanEpilogue)
    index = 0
    for op in loads:
        if isinstance(op, InsideOp):
            yield f"({_is_inside(index)} ? 1.0f : 0.0f)"
        elif not isinstance(op.source.type, TensorType):
            yield f"p.extra[{index}].value"
        elif isinstance(op, SrcFetchOp | AuxLoadOp):
            own = isinstance(op, SrcFetchOp) and not lean
            yield _read(gemm.problem.matrix(op.source), "p.c" if own else f"p.extra[{index}]", "ijl")
            index -= own
        else:
            axis = gemm.problem.axis(op)
            strides = (ZERO, ZERO, gemm.problem.vector(op.source, axis)[1])
            element = VIEW_TYPES[op.source.type.dtype]
            where = _terms(strides, axis, f"p.extra[{index}]", "ijl")
            yield f"mucc::widen(p.extra[{index}].as<{element}>()[{where}])"
        index += 1


def _is_inside(index: int) -> str:
    """Emit whether column `j` is in the range that an operand of the problem gives."""
    return f"on_host::in_range(p.extra[{index}], j)"


def _stores(gemm: Gemm, value: str) -> Iterator[str]:
    """Emit the store of an element: to D, or to the matrix whose range of columns has it."""
    assert gemm.d is not None
    element = VIEW_TYPES[gemm.d.memory.type.dtype]
    if not gemm.op.ranges:
        to = _terms(gemm.d.strides, gemm.d.unit, "p.d", "ijl")
        yield f"mucc::narrow({value}, p.d.as<{element}>()[{to}]);"
    first = len(gemm.epilogue.operands) - 2 * len(gemm.op.ranges)
    for i, store in enumerate(gemm.op.ranges):
        matrix, place = gemm.problem.matrix(store.destination), f"p.extra[{first + 2 * i}]"
        numbers = first + 2 * i + 1
        to = _terms(matrix.strides, matrix.unit, place, ["i", f"(j - p.extra[{numbers}].stride[0])", "l"])
        yield f"if ({_is_inside(numbers)}) mucc::narrow({value}, {place}.as<{element}>()[{to}]);"


def _checks(gemm: Gemm) -> Iterator[str]:
    """Emit the conditions under which TMA can map the matrices of the kernel."""
    mainloop = gemm.op.mainloop
    if mainloop is None or mainloop.data is Mainloop.MULTISTAGE:
        return
    named = {"a": gemm.a, "b": gemm.b, "c": gemm.c, "d": gemm.d}
    if mainloop.data is Mainloop.CPASYNC:
        del named["a"]
    for name, matrix in named.items():
        if matrix is not None:
            size = dtype_bits(matrix.memory.type.element_type) // 8
            given = f"p.{name}, {matrix.unit}, {size}, {'false' if matrix.strides[2].is_zero else 'true'}"
            yield f'  if (!on_host::maps({given})) return "TMA cannot map {name}";'
    first = len(gemm.epilogue.operands) - 2 * len(gemm.op.ranges)
    for i, store in enumerate(gemm.op.ranges):
        matrix = gemm.problem.matrix(store.destination)
        size = dtype_bits(matrix.memory.type.element_type) // 8
        given = f"p.extra[{first + 2 * i}], 1, {size}, {'false' if matrix.strides[2].is_zero else 'true'}"
        yield f'  if (!on_host::maps({given})) return "TMA cannot map a range of columns";'


def _is_further(op: Operation) -> bool:
    """Whether a node of an epilogue stores something besides the product or its ranges of columns."""
    if isinstance(op, AuxStoreOp):
        return op.columns is None
    return isinstance(op, ReductionNode | ScatterNode)


def stand_in(gemm: Gemm) -> str:
    """Emit the stand-in of a contraction: a function `run` of the problem, which returns an error or null.

    Raises NotOnHost where there is none.
    """
    if any(map(_is_further, gemm.op.nodes)):
        raise NotOnHost("a product with several bodies or results has no stand-in")
    if gemm.op.group_columns:
        return _of_groups(gemm)
    if gemm.d is None or len(gemm.bodies) > 1:
        raise NotOnHost("a product with several bodies or results has no stand-in")
    if gemm.op.is_grouped or gemm.op.narrow is not None:
        raise NotOnHost("a product of groups of rows or of narrow weights has no stand-in")
    (body,) = gemm.bodies or [None]
    loads = list(_loads(gemm))
    given = ", ".join(["float(sum)", *loads])
    value = f"{body.name}::apply({given})" if body else "float(sum)"
    return "\n".join(
        [
            *([body.text] if body else []),
            "char const* run(mucc::gemm::Problem const& p) {",
            *_checks(gemm),
            "  for (int64_t l = 0; l < p.batch; ++l)",
            "  for (int64_t i = 0; i < p.m; ++i)",
            "  for (int64_t j = 0; j < p.n; ++j) {",
            *(f"    {line}" for line in _product(gemm)),
            *(f"    {line}" for line in _stores(gemm, value)),
            "  }",
            "  return nullptr;",
            "}",
        ]
    )


def _product(gemm: Gemm) -> list[str]:
    """Emit the product of a row and a column, `sum`."""
    a, b = _read(gemm.a, "p.a", "ikl"), _read(gemm.b, "p.b", "jkl")
    return ["double sum = 0;", f"for (int64_t k = 0; k < p.k; ++k) sum += double({a}) * double({b});"]


def _of_groups(gemm: Gemm) -> str:
    """Emit the stand-in of a contraction whose epilogue reduces groups of columns.

    Each node is computed for a whole row before the next one: `v` has a row of each value.
    """
    loads = list(_loads(gemm))
    nodes = ordered(gemm.op.nodes)
    values: list[SSAValue] = [op.result for op in nodes if isinstance(op, AccFetchOp)]
    values += [op.results[0] for op in nodes if isinstance(op, LoadNode)]
    lines = [
        "for (int64_t j = 0; j < p.n; ++j) {",
        *_product(gemm),
        "v[0][j] = float(sum);",
        *(f"v[{i}][j] = {load};" for i, load in enumerate(loads, 1)),
        "}",
        *_row_values(gemm, nodes, values),
        *_row_stores(gemm, values, len(loads)),
    ]
    return "\n".join(
        [
            *(body.text for body in gemm.bodies),
            "char const* run(mucc::gemm::Problem const& p) {",
            *_checks(gemm),
            f"  std::vector<std::vector<float>> v({len(values)}, std::vector<float>(p.n));",
            "  for (int64_t l = 0; l < p.batch; ++l)",
            "  for (int64_t i = 0; i < p.m; ++i) {",
            *(f"    {line}" for line in lines),
            "  }",
            "  return nullptr;",
            "}",
        ]
    )


def _row_values(gemm: Gemm, nodes: Sequence[Operation], values: list[SSAValue]) -> Iterator[str]:
    """Emit the computed values of a row, and append each to `values`."""
    bodies = iter(gemm.bodies)
    for op in nodes:
        to = f"v[{len(values)}]"
        if isinstance(op, ComputeOp):
            given = ", ".join(f"v[{values.index(v)}][j]" for v in gemm.epilogue.inputs(op))
            yield f"for (int64_t j = 0; j < p.n; ++j) {to}[j] = {next(bodies).name}::apply({given});"
        elif isinstance(op, GroupReduceOp):
            yield from _group_reduction(op, f"v[{values.index(op.value)}]", to)
        else:
            continue
        values.append(op.result)


def _group_reduction(op: GroupReduceOp, of: str, to: str) -> list[str]:
    """Emit the reduction of each group of columns of a row."""
    kind, width = REDUCTIONS[op.kind.data], op.width.value.data
    return [
        f"for (int64_t j = 0; j < p.n; j += {width}) {{",
        f"float total = {kind}::identity;",
        f"for (int c = 0; c < {width}; ++c)",
        f"total = {kind}::combine(total, {kind}::first({of}[j + c]));",
        f"for (int c = 0; c < {width}; ++c) {to}[j + c] = total;",
        "}",
    ]


def _row_stores(gemm: Gemm, values: Sequence[SSAValue], first: int) -> Iterator[str]:
    """Emit the stores of a row; `first` is the number of the first operand that groups are stored to."""
    for op in gemm.op.stores:
        value = f"v[{values.index(op.value)}][j]"
        if isinstance(op, GroupStoreOp):
            width, extra = op.width.value.data, f"p.extra[{first}]"
            to = f"{extra}.as<float>()[i * {extra}.stride[0] + j / {width} + l * {extra}.stride[2]]"
            yield f"for (int64_t j = 0; j < p.n; j += {width}) {to} = {value};"
            first += 1
        else:
            yield from ("for (int64_t j = 0; j < p.n; ++j) {", *_stores(gemm, value), "}")
