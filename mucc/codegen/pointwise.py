"""Map and reduction kernels: a struct of views for the templates of mucc/map.cuh and mucc/reduce.cuh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from mucc.codegen.body import Body, compute_body
from mucc.codegen.memory import (
    ONE,
    VIEW_TYPES,
    ZERO,
    Axis,
    EmissionError,
    Memory,
    Places,
    Product,
    Scalar,
    product,
)
from mucc.codegen.names import Namer, comment_text, string_literal, words
from mucc.codegen.reductions import identity, reduction
from mucc.codegen.texts import INDICES, Entry, Texts, used_locals
from mucc.dialects.cutlass.nodes import (
    ComputeOp,
    LoadNode,
    LoadOp,
    ReduceStoreOp,
    ScatterStoreOp,
    StoreOp,
    are_bits,
)
from mucc.dialects.cutlass.ops import DeviceKernelOp
from mucc.dialects.cutlass.views import Indexed, View, view_of
from mucc.dialects.mu.types import PACKED, Dims, TensorType, dtype_bytes

THREADS = 256
"""Threads of a block of a map or reduction kernel."""

# What the generated struct and the functions in it define themselves.
_MEMBERS = words(
    """
    Op Work Kinds V P c p v kRank kKept kVector kThreads kRows kDense run fits store values fill shared result
    count extents total rows length chunk codes
    """
)

_MAX_SHARED_VALUES = 4  # reduce_columns keeps 4 KB of shared memory per value at 8 lanes; 48 KB are static


@dataclass(frozen=True)
class Operand:
    """A tensor of the kernel with its strides over the kernel's space, before axes are merged."""

    member: str
    memory: Memory
    strides: list[Product]
    rows: Rows | None = None
    is_copied: bool = False
    """Whether its bits are moved as they are, as those of an f32: f32 does not hold every s32."""

    @property
    def element(self) -> str:
        """The type in C++ that it is accessed as."""
        return "float" if self.is_copied else VIEW_TYPES[self.memory.type.dtype]


@dataclass(frozen=True)
class Rows:
    """That rows of a tensor are named by an index tensor: their stride and number, and the index's member.

    The strides of the tensor over the axes of the index are 0.
    """

    stride: Product
    count: Product
    index: str


def _is_copy(node: Operation) -> bool:
    """Whether a node stores integers of 32 bits as their bits."""
    if not isinstance(node, StoreOp | ScatterStoreOp | ReduceStoreOp) or not are_bits(node.value):
        return False
    return isinstance(t := node.destination.type, TensorType) and t.dtype == "s32"


def _lane_kind(stride: Product) -> str:
    return "kUnit" if stride.is_one else "kSame" if stride.is_zero else "kAny"


class Space:
    """The axes that a kernel runs over, with adjacent ones merged where every tensor allows it."""

    def __init__(self, extents: Sequence[Product], groups: Sequence[Sequence[int]]):
        self.extents = list(extents)
        self.groups = [[a for a in group if not self.extents[a].is_one] for group in groups]

    def merge(self, operands: Sequence[Operand]) -> list[list[list[int]]]:
        """For each group, its merged axes; each is a list of the original ones, slowest first."""
        merged: list[list[list[int]]] = []
        for group in self.groups:
            runs: list[list[int]] = []
            for axis in group:
                if runs and all(self._follow(o.strides, runs[-1][-1], axis) for o in operands):
                    runs[-1].append(axis)
                else:
                    runs.append([axis])
            merged.append(runs or [[]])
        return merged

    def _follow(self, strides: Sequence[Product], slower: int, faster: int) -> bool:
        return strides[slower] == strides[faster] * self.extents[faster]


class Pointwise:
    """Collects loads, bodies and stores of a kernel over a space, of which it may reduce some `axes`."""

    def __init__(self, op: DeviceKernelOp, space: Dims, places: Places, axes: Sequence[int] | None = None):
        self.op = op
        self.places = places
        self.space = space
        self.axes = axes
        self.namer = Namer(_MEMBERS)
        self.bodies: list[Body] = []
        self.statements: list[str] = []
        self.lanes: dict[SSAValue, str] = {}
        self.loads: list[Operand] = []
        self.scalars: list[tuple[str, Scalar]] = []
        self.outputs: list[Operand] = []
        self.stored: list[StoreOp | ScatterStoreOp] = []
        self.reduced: list[ReduceStoreOp] = []
        for node in op.nodes:
            match node:
                case LoadOp():
                    self._load(node, is_copied=are_bits(node.result))
                case ComputeOp():
                    self._compute(node)
                case StoreOp():
                    output = self._output(node.destination, self.space)
                    self.outputs.append(replace(output, is_copied=_is_copy(node)))
                    self.stored.append(node)
                case ScatterStoreOp():
                    output = self._scattered_output(node)
                    self.outputs.append(replace(output, is_copied=_is_copy(node)))
                    self.stored.append(node)
                case ReduceStoreOp():
                    output = self._reduced_output(node)
                    self.outputs.append(replace(output, is_copied=_is_copy(node)))
                    self.reduced.append(node)
                case _:
                    raise EmissionError(f"{node.name} in a {op.name}")

    def _strides(self, axes: Sequence[Axis]) -> list[Product]:
        return [ZERO if a.extent == 1 else a.stride for a in axes]

    def _load(self, node: LoadNode, *, is_copied: bool = False) -> None:
        if not isinstance(node.source.type, TensorType):
            scalar = self.places.find(node.source)
            assert isinstance(scalar, Scalar)
            member = self.namer(scalar.name)
            self.scalars.append((member, scalar))
            self._lanes(node.result, member, f"mucc::Lanes<V>({member})")
            return
        memory, axes = self.places.view(node.source, self.space)
        member = self.namer(memory.name)
        view = view_of(node.source)
        if view.rows is None:
            self.loads.append(Operand(member, memory, self._strides(axes), is_copied=is_copied))
            self._lanes(node.result, member, f"mucc::load<V>({member}, p)")
            return
        index = self._index(view.rows, self._indexed_axes(view))
        axis = view.row_axis
        stride = ZERO if axis is None else memory.strides[axis]
        rows = Rows(stride, ONE if axis is None else self.places.extent(memory.type.dims[axis]), index)
        self.loads.append(Operand(member, memory, self._strides(axes), rows, is_copied))
        self._lanes(node.result, member, f"mucc::load_rows<V>({member}, {index}, p)")

    def _indexed_axes(self, view: View) -> dict[int, int]:
        """For axes of an index tensor, the axis of the space that walks along it."""
        first = len(self.space) - len(view.axes)
        return {axis.axis: first + i for i, axis in enumerate(view.axes) if isinstance(axis, Indexed)}

    def _index(self, rows: SSAValue, places: dict[int, int]) -> str:
        """Makes an index tensor an operand; its member."""
        type = rows.type
        assert isinstance(type, TensorType)
        memory, axes = self.places.view(rows, type.dims)
        strides = [ZERO] * len(self.space)
        for axis, place in places.items():
            strides[place] = ZERO if type.dims[axis] == 1 else axes[axis].stride
        member = self.namer(memory.name)
        self.loads.append(Operand(member, memory, strides))
        return member

    def _lanes(self, value: SSAValue, hint: str, text: str) -> None:
        name = self.namer(f"{hint}_v")
        self.lanes[value] = name
        self.statements.append(f"auto const {name} = {text};")

    def _compute(self, node: ComputeOp) -> None:
        name = self.namer(f"Body{len(self.bodies)}")
        parameters = Namer()
        hints = [self.lanes[v].removesuffix("_v") for v in node.inputs]
        self.bodies.append(compute_body(name, node, [parameters(h) for h in hints]))
        inputs = ", ".join(self.lanes[v] for v in node.inputs)
        call = f"mucc::each<{name}>({inputs})" if inputs else f"mucc::Lanes<V>({name}::apply())"
        self._lanes(node.result, f"y{len(self.bodies) - 1}", call)

    def _output(self, destination: SSAValue, space: Dims) -> Operand:
        memory, axes = self.places.view(destination, space)
        return Operand(self.namer(memory.name), memory, self._strides(axes))

    def _scattered_output(self, node: ScatterStoreOp) -> Operand:
        operand = self._output(node.destination, self.space)
        index = self._index(node.rows, {0: 0})
        rows = Rows(operand.memory.strides[0], self.places.extent(operand.memory.type.dims[0]), index)
        return replace(operand, strides=[ZERO, *operand.strides[1:]], rows=rows)

    def _reduced_output(self, node: ReduceStoreOp) -> Operand:
        gone = set(self.axes or ())
        kept = [a for a in range(len(self.space)) if a not in gone]
        operand = self._output(node.destination, tuple(self.space[a] for a in kept))
        strides = [ZERO] * len(self.space)
        for axis, stride in zip(kept, operand.strides, strict=True):
            strides[axis] = stride
        return Operand(operand.member, operand.memory, strides)

    # Text

    def _view_type(self, operand: Operand, rank: int, fast: int, lanes: str) -> str:
        axis = "" if fast == rank - 1 else f", {fast}"
        return f"mucc::View<{operand.element}, {rank}, mucc::Along::{lanes}{axis}>"

    def _merged_strides(self, operand: Operand, axes: Sequence[Sequence[int]]) -> list[Product]:
        return [operand.strides[run[-1]] if run else ZERO for run in axes]

    def _vector(self) -> int:
        widest = max(
            8 if dtype_bytes(o.memory.type.element_type) < 4 else 4 for o in [*self.loads, *self.outputs]
        )
        return widest if len(self.reduced) <= _MAX_SHARED_VALUES else min(widest, 4)

    def texts(self, entry: str) -> Texts:
        """The kernel's parts."""
        is_reduction = self.axes is not None
        extents = [self.places.extent(d) for d in self.space]
        gone = set(self.axes or ())
        kept = [a for a in range(len(self.space)) if a not in gone]
        groups = [kept, sorted(gone)] if is_reduction else [kept]
        merged = Space(extents, groups).merge([*self.loads, *self.outputs])
        axes = [run for group in merged for run in group]
        rank = len(axes)
        rows = is_reduction and self._rows(gone, extents)
        fast = rank - 1 if rows or not is_reduction else len(merged[0]) - 1
        members, values, fitting = self._members(axes, fast)
        constants = [
            f"static constexpr int kRank = {rank}, kVector = {self._vector()}, kThreads = {THREADS};"
        ]
        if is_reduction:
            flags = f"kRows = {_bool(rows)}, kDense = {_bool(self._dense(extents, kept))}"
            constants += [
                f"static constexpr int kKept = {len(merged[0])};",
                f"static constexpr bool {flags};",
            ]
        sizes = [str(product([extents[a] for a in run])) for run in axes]
        data = ["struct Op {", *(f"  {line}" for line in (*constants, "", *members)), "};"]
        work = ["struct Work : Op {", *self._kinds(), *self._functions(is_reduction), "};"]
        entries = self._reduce_entries(entry, rows) if is_reduction else _map_entries(entry)
        given = [
            "c",
            string_literal(self.op.stage.data),
            "codes",
            "op",
            f"{{{{{', '.join(sizes)}}}}}",
            " && ".join(fitting) or "true",
            *(["fill"] if is_reduction else []),
        ]
        launch = [
            *self._fill(),
            "int run(mucc::Call const& c) {",
            *used_locals(self.places, *values, *sizes),
            "  Op const op{",
            *(f"      {v}," for v in values),
            "  };",
            f"  return mucc::launch_{'reduce' if is_reduction else 'map'}({', '.join(given)});",
            "}",
        ]
        return Texts("\n".join(data), self.bodies, "\n".join(work), entries, "\n".join(launch))

    def _members(self, axes: Sequence[Sequence[int]], fast: int) -> tuple[list[str], list[str], list[str]]:
        """The members of `Op`, their values, and what must hold of them for a kernel of whole vectors.

        `axes` are those of the kernel, each made of some of the program's; threads lie along `fast`.
        """
        members: list[str] = []
        values: list[str] = []
        fitting: list[str] = []
        for operand in (*self.loads, *self.outputs):
            strides = self._merged_strides(operand, axes)
            free = self.axes is not None and operand in self.outputs
            packed = operand.memory.type.dtype in PACKED
            lanes = "kAny" if free or packed else _lane_kind(strides[fast])
            view = self._view_type(operand, len(axes), fast, lanes)
            members.append(
                f"{f'mucc::Rows<{view}>' if operand.rows else view} {operand.member};"
                f"  // {comment_text(f'{operand.memory.name}: {operand.memory.type}')}"
            )
            data = operand.memory.data(operand.element)
            value = f"{{{data}, {{{', '.join(map(str, strides))}}}}}"
            named = operand.rows
            values.append(f"{{{value}, {named.stride}, {named.count}}}" if named else value)
            if lanes == "kUnit":
                fitting.append(f"mucc::fits(op.{operand.member}, Op::kVector)")
        for member, scalar in self.scalars:
            members.append(f"float {member};")
            values.append(scalar.expression)
        return members, values, fitting

    def _reduce_entries(self, entry: str, rows: bool) -> list[Entry]:
        given = "Work const op, mucc::Extents<Op::kRank> const extents, {0} rows, {0} length, {0} chunk"
        found: list[Entry] = []
        for name, function in (
            (("warp", "rows<{}, 32>"), ("block", "rows<{}, Op::kThreads>"))
            if rows
            else (("columns", "columns<{}>"),)
        ):
            for width, vector in (("", "1"), ("_vector", "Op::kVector")):
                for suffix, index in INDICES:
                    call = f"mucc::reduce_{function.format(vector)}(op, extents, rows, length, chunk)"
                    found.append(Entry(f"{entry}_{name}{width}{suffix}", given.format(index), call))
        return found

    def _rows(self, gone: set[int], extents: Sequence[Product]) -> bool:
        """Whether the innermost axis that has more than one element is reduced."""
        walked = [a for a in range(len(self.space)) if not extents[a].is_one]
        return not walked or walked[-1] in gone

    def _dense(self, extents: Sequence[Product], kept: Sequence[int]) -> bool:
        """Whether every output is contiguous f32 in the order of the kept axes: one fill covers it."""
        for output in self.outputs:
            expected = ONE
            for axis in reversed(kept):
                if not extents[axis].is_one and output.strides[axis] != expected:
                    return False
                expected = expected * extents[axis]
            if output.memory.type.dtype != "f32":
                return False
        return True

    def _kinds(self) -> list[str]:
        if not self.reduced:
            return []
        kinds = ", ".join(reduction(node) for node in self.reduced)
        return [f"  using Kinds = mucc::Reductions<{kinds}>;", ""]

    def _functions(self, is_reduction: bool) -> list[str]:
        body = [f"    {s}" for s in self.statements]
        if not is_reduction:
            stores = [
                f"    mucc::store{f'_rows({o.member}, {o.rows.index}' if o.rows else f'({o.member}'}, p, "
                f"{self.lanes[node.value]});"
                for o, node in zip(self.outputs, self.stored, strict=True)
            ]
            return [
                "  template <int V, class P>",
                "  MUCC_DEVICE void run(P const& p) const {",
                *body,
                *stores,
                "  }",
            ]
        count = len(self.reduced)
        results = ", ".join(self.lanes[node.value] for node in self.reduced)
        writes = [
            f"    mucc::reduce<{reduction(node)}>({o.member}, p, result[{k}], shared);"
            for k, (o, node) in enumerate(zip(self.outputs, self.reduced, strict=True))
        ]
        return [
            "  template <int V, class P>",
            f"  MUCC_DEVICE mucc::Values<V, {count}> values(P const& p) const {{",
            *body,
            f"    return {{{{{results}}}}};",
            "  }",
            "  template <class P>",
            f"  MUCC_DEVICE void store(P const& p, float const (&result)[{count}], bool shared) const {{",
            *writes,
            "  }",
        ]

    def _fill(self) -> list[str]:
        """The function that fills the outputs with the identity, for results that blocks share."""
        if not self.reduced:
            return []
        signature = "int fill(mucc::Call const& c, Op const& op, int64_t count)"
        if any(o.memory.type.dtype != "f32" for o in self.outputs):
            unnamed = signature.replace("& c", "&").replace("& op", "&").replace(" count", "")
            return [f"{unnamed} {{ return 0; }}  // blocks share f32 results only", ""]
        fills = " ||\n         ".join(
            f"mucc::fill(c, op.{o.member}.data, {identity(node.kind.data)}, count)"
            for o, node in zip(self.outputs, self.reduced, strict=True)
        )
        return [f"{signature} {{", f"  return {fills};", "}", ""]


def _map_entries(entry: str) -> list[Entry]:
    return [
        Entry(
            f"{entry}_map{width}{suffix}",
            f"Work const op, mucc::Extents<Op::kRank> const extents, {index} total",
            f"mucc::map<{vector}>(op, extents, total)",
        )
        for width, vector in (("", "1"), ("_vector", "Op::kVector"))
        for suffix, index in INDICES
    ]


def _bool(value: bool) -> str:
    return "true" if value else "false"
