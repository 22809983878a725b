"""Emit kernels over a space of elements: a struct of views, and loads, bodies and stores per element."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from xdsl.ir import Operation, SSAValue

from mucc.codegen.body import Body, compute_body, expression
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
from mucc.codegen.space import Space
from mucc.codegen.texts import Entry, Texts, used_locals
from mucc.dialects.cutlass.nodes import (
    ComputeOp,
    IndexOp,
    InsideOp,
    LoadNode,
    LoadOp,
    RandomNode,
    ScatterNode,
    StoreNode,
    StoreOp,
    are_bits,
)
from mucc.dialects.cutlass.ops import DeviceKernelOp, is_reproducible
from mucc.dialects.cutlass.views import View, view_of
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.types import PACKED, Dim, Dims, Shaped, TensorType, dims_of, dtype_bytes

THREADS = 256
"""Threads per block of a map or reduction kernel."""

# What the generated struct and the functions in it define themselves.
_MEMBERS = words(
    """
    Op Work Kind Kinds V P c p v kRank kKept kKnown kVector kThreads kRows kDense run fits store values fill
    shared
    result count extents total rows length chunk codes inside index
    kChannels kOutputs kChannelsInner kVectorX kVectorW kAlongChannels kVectors kRun kChannelAxis Element
    Format Shape Windows Wide Patches kTogether kLines kLineRun problem
    Keys Score To Sum Sums Team Results Filled Bits State Pool PoolKind Planes PerChannel Strips Scales
    """
)


@dataclass(frozen=True)
class Operand:
    """A tensor operand with its strides over the kernel's space, before axes are merged."""

    member: str
    memory: Memory
    strides: list[Product]
    rows: Rows | None = None
    is_copied: bool = False
    """Whether elements are moved as bits in an f32, because f32 cannot represent every s32."""
    bounds: tuple[Bound, ...] = ()
    """Limits of the indices for which there are elements."""
    is_single: bool = False
    """Whether elements are accessed one at a time."""

    @property
    def element(self) -> str:
        """The C++ type of accesses."""
        return "float" if self.is_copied else VIEW_TYPES[self.memory.type.dtype]


@dataclass(frozen=True)
class Bound:
    """Indices along an axis of the space: `count` from `low` on. `index` is the member that counts them."""

    index: str
    low: Product
    count: Product


@dataclass(frozen=True)
class Rows:
    """Rows of a tensor selected by an index tensor: stride and number of rows, member of the index.

    The strides of the tensor over the axes of the index are 0.
    """

    stride: Product
    count: Product
    index: str


def _is_copy(node: Operation) -> bool:
    """Whether a node stores 32-bit integers as bits."""
    if not isinstance(node, StoreNode) or not are_bits(node.value):
        return False
    return isinstance(t := node.destination.type, TensorType) and t.dtype == "s32"


def _lane_kind(stride: Product) -> str:
    return "kUnit" if stride.is_one else "kSame" if stride.is_zero else "kAny"


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Hooks by which a kind of kernel extends the code of loads and stores.

    `constants` and `work` are members of `Op` and `Work`; `host` are functions before `run`, which calls
    `launcher` with further `arguments`. With `free_outputs` outputs are written one element at a time, and
    `free_loads` are members that are read so; else `output_vector` elements are written at a time.
    `scratch` is the function that says how many bytes of scratch memory a space takes, and
    `scratch_arguments` are what it gets besides the space; then `launcher` gets
    that memory as its last argument. `fits` is the function that says whether a view is read by vectors.
    `spliced` are the names of bodies that are compiled apart, with `straight` only if none has branches, and
    with `alone` each kernel has an image of its own (see `Texts`).
    """

    fast: int
    constants: Sequence[str]
    work: Sequence[str]
    entries: list[Entry]
    launcher: str
    arguments: Sequence[str] = ()
    scratch: str | None = None
    scratch_arguments: Sequence[str] = ()
    host: Sequence[str] = ()
    free_outputs: bool = False
    free_loads: Collection[str] = ()
    output_vector: str = "Op::kVector"
    fits: str = "fits"
    spliced: Collection[str] = ()
    straight: bool = False
    alone: bool = False


class Pointwise(ABC):
    """Builder of a kernel over a space from its loads, bodies and stores; kinds of kernels extend it."""

    members: ClassVar[frozenset[str]] = frozenset()
    """Names that the struct of this kind of kernel and the functions in it define besides those of all."""

    def __init__(self, op: DeviceKernelOp, space: Dims, places: Places):
        self.op = op
        self.places = places
        self.space = space
        self.namer = Namer(_MEMBERS | self.members)
        self.bodies: list[Body] = []
        self.statements: list[str] = []
        self.lanes: dict[SSAValue, str] = {}
        self.loads: list[Operand] = []
        self.scalars: list[tuple[str, Scalar]] = []
        self.ranges: list[tuple[str, Bound]] = []
        """Ranges of indices, by member."""
        self.pairs: dict[str, str] = {}
        """Members of operands whose elements alternate in memory, the first one of each pair -> the other."""
        self._counters: dict[int, str] = {}
        self.outputs: list[Operand] = []
        self.results: list[str] = []
        """The values stored to each output."""
        for node in op.nodes:
            self.node(node)

    def node(self, node: Operation) -> None:
        """Add the next node. Raises EmissionError for an unsupported node."""
        match node:
            case LoadOp():
                self._load(node, is_copied=are_bits(node.result))
            case IndexOp():
                member = self.counter(node.axis.value.data)
                self._lanes(node.result, member, f"mucc::indices<V>({member}, p)")
            case InsideOp():
                self._inside(node)
            case RandomNode():
                self._random(node)
            case ComputeOp():
                self._compute(node)
            case StoreOp():
                self.store(node, self.output(node.destination, self.space, node.part))
            case _:
                raise EmissionError(f"{node.name} in a {self.op.name}")

    def store(self, node: StoreNode, output: Operand) -> None:
        """Add an output with the value that a node stores."""
        self.outputs.append(replace(output, is_copied=_is_copy(node)))
        self.results.append(self.lanes[node.value])

    @property
    @abstractmethod
    def groups(self) -> Sequence[Sequence[int]]:
        """Group the axes of the space by use; only axes of one group are merged."""

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
            bounds = self._bounds(memory, view, Shaped.of(node.source.type).dims)
            self.loads.append(
                Operand(member, memory, self._strides(axes), is_copied=is_copied, bounds=bounds)
            )
            self._lanes(node.result, member, f"mucc::load<V>({member}, p)")
            return
        if memory.windows:
            raise EmissionError(f"rows of a part of {memory.name}")
        index = self.index(view.rows, self._indexed_axes(view))
        axis = view.row_axis
        stride = ZERO if axis is None else memory.strides[axis]
        rows = Rows(stride, ONE if axis is None else self.places.extent(memory.type.dims[axis]), index)
        self.loads.append(Operand(member, memory, self._strides(axes), rows, is_copied))
        self._lanes(node.result, member, f"mucc::load_rows<V>({member}, {index}, p)")

    def counter(self, axis: int) -> str:
        """Return the member whose place is the index along an axis of the space."""
        if axis not in self._counters:
            strides = [ONE if a == axis else ZERO for a in range(len(self.space))]
            self._counters[axis] = self._counts(f"i{axis}", self.space[axis : axis + 1], strides)
        return self._counters[axis]

    def _counted(self, member: str, axes: Sequence[Sequence[int]]) -> int | None:
        """Return the merged axis that a member counts along; None for members that are in memory."""
        axis = next((axis for axis, name in self._counters.items() if name == member), None)
        return next((i for i, run in enumerate(axes) if axis in run), None)

    def _counts(self, hint: str, dims: Dims, strides: list[Product]) -> str:
        """Add a view of no memory, whose places are numbers."""
        member = self.namer(hint)
        memory = Memory(TensorType.of(dims, S32), "index", "nullptr", (ONE,) * len(dims))
        self.loads.append(Operand(member, memory, strides))
        return member

    def _random(self, node: RandomNode) -> None:
        dims, axes = dims_of(node.dims), node.axes.get_values()
        strides, step = [ZERO] * len(self.space), ONE
        for dim, axis in reversed(list(zip(dims, axes, strict=True))):
            if axis >= 0:
                strides[axis] = step
            step = step * self.places.extent(dim)
        member = self._counts("element", dims, strides)
        if node.seed is not None:
            seed = f"mucc::to_bits({self.lanes[node.seed]}.of[0])"
        else:
            seed = str(node.literal.value.data if node.literal else 0)
        given = f"{member}, p, uint32_t({seed}), {node.stream.value.data}u"
        self._lanes(node.result, "random", f"mucc::random<V>({given})")

    def _inside(self, node: InsideOp) -> None:
        low, count = map(self.places.extent, node.range)
        if node.axis is None:
            inside = f"{low} <= 0 && 0 < {low} + {count} ? 1.0f : 0.0f"
            self._lanes(node.result, "inside", f"mucc::Lanes<V>({inside})")
            return
        index = self.counter(node.axis.value.data)
        member = self.namer("inside")
        self.ranges.append((member, Bound(index, low, count)))
        self._lanes(node.result, member, f"mucc::inside<V>({member}, {index}, p)")

    def _bounds(self, memory: Memory, view: View, dims: Dims) -> tuple[Bound, ...]:
        """Return the limits of a tensor's elements, by axes of the space.

        Along an axis of one element, which it has, the tensor is repeated.
        """
        first = len(self.space) - len(dims)
        axes = [(view.axes.index(window.axis), window) for window in memory.windows]
        return tuple(
            Bound(self.counter(first + axis), window.low, window.count)
            for axis, window in axes
            if not self.places.extent(dims[axis]).is_one
        )

    def _indexed_axes(self, view: View) -> dict[int, int]:
        """Map the axes of an index tensor to axes of the space."""
        first = len(self.space) - len(view.row_axes)
        return {axis: first + i for i, axis in enumerate(view.row_axes) if axis is not None}

    def index(self, rows: SSAValue, places: dict[int, int]) -> str:
        """Add an index tensor as an operand, and return its member."""
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
        names = [parameters(h) for h in hints]
        self.bodies.append(compute_body(name, node, names, express=self.expression))
        inputs = ", ".join(self.lanes[v] for v in node.inputs)
        call = f"mucc::each<{name}>({inputs})" if inputs else f"mucc::Lanes<V>({name}::apply())"
        self._lanes(node.result, f"y{len(self.bodies) - 1}", call)

    def expression(self, op: Operation, operands: Sequence[str]) -> str:
        """Emit an operation of a body."""
        return expression(op, operands)

    def output(self, destination: SSAValue, space: Dims, part: tuple[int, Dim] | None = None) -> Operand:
        memory, axes = self.places.view(destination, space)
        if part is not None:
            axis, low = part
            if not (before := self.places.extent(low) * memory.strides[axis]).is_zero:
                memory = replace(memory, offset=(*memory.offset, before))
        return Operand(self.namer(memory.name), memory, self._strides(axes))

    def scattered_output(self, node: ScatterNode) -> Operand:
        operand = self.output(node.destination, self.space)
        index = self.index(node.rows, {0: 0})
        rows = Rows(operand.memory.strides[0], self.places.extent(operand.memory.type.dims[0]), index)
        return replace(operand, strides=[ZERO, *operand.strides[1:]], rows=rows)

    # Text

    @property
    def extents(self) -> list[Product]:
        """The extents of the space."""
        return [self.places.extent(d) for d in self.space]

    def merged(self) -> list[list[list[int]]]:
        """Return the kernel's merged axes by group."""
        return Space(self.extents, self.groups).merge([*self.loads, *self.outputs])

    def known(self, axes: Sequence[Sequence[int]]) -> str:
        """Return the extents of the merged axes as C++, 0 for those that a launch gives."""
        extents = [[self.space[axis] for axis in run] for run in axes]
        known = [math.prod(map(int, e)) if all(isinstance(n, int) for n in e) else 0 for e in extents]
        return ", ".join(str(n if n < 1 << 31 else 0) for n in known)

    def runs_fastest(self, axes: Collection[int]) -> bool:
        """Whether the innermost axis that has more than one element is one of `axes`, or there is none."""
        long = [axis for axis, extent in enumerate(self.extents) if not extent.is_one]
        return not long or long[-1] in axes

    @property
    def widest(self) -> int:
        """Compute the elements per vector: 16 bytes of the widest tensor, at most 8."""
        sizes = (dtype_bytes(o.memory.type.element_type) for o in (*self.loads, *self.outputs))
        return max(8 if size < 4 else 4 for size in sizes)

    def assemble(self, parts: Parts) -> Texts:
        """Emit the kernel over its merged axes, with threads along the `fast` axis."""
        axes = [run for group in self.merged() for run in group]
        members, values, fitting = self._members(axes, parts)
        sizes = [str(product([self.extents[a] for a in run])) for run in axes]
        extents = f"{{{{{', '.join(sizes)}}}}}"
        constants = list(parts.constants)
        if is_reproducible(self.op):
            constants.append("static constexpr bool kReproducible = true;")
        data = ["struct Op {", *(f"  {line}" for line in (*constants, "", *members)), "};"]
        given = [
            "c",
            string_literal(self.op.stage.data),
            "codes",
            "op",
            extents,
            " && ".join(fitting) or "true",
            *parts.arguments,
            *(["scratch"] if parts.scratch else []),
        ]
        launch = [
            *parts.host,
            f"int run(mucc::Call const& c{', void* scratch' if parts.scratch else ''}) {{",
            *used_locals(self.places, *values, *sizes, *parts.arguments),
            "  Op const op{",
            *(f"      {v}," for v in values),
            "  };",
            f"  return mucc::{parts.launcher}({', '.join(given)});",
            "}",
        ]
        if parts.scratch:
            launch += [
                "",
                "int64_t scratch_bytes(mucc::Call const& c) {",
                *used_locals(self.places, *sizes, *parts.scratch_arguments),
                f"  return mucc::{parts.scratch}<Op>({', '.join(['c', extents, *parts.scratch_arguments])});",
                "}",
            ]
        work = ["struct Work : Op {", *parts.work, "};"]
        return Texts(
            "\n".join(data),
            self.bodies,
            "\n".join(work),
            parts.entries,
            "\n".join(launch),
            frozenset(parts.spliced),
            parts.straight,
            parts.alone,
        )

    def _view_type(self, operand: Operand, strides: Sequence[Product], fast: int, lanes: str) -> str:
        known = [s.factor if not s.names and self.compiles_in(s) else -1 for s in strides]
        arguments = [operand.element, str(len(strides)), f"mucc::Along::{lanes}"]
        named = any(stride >= 0 for axis, stride in enumerate(known) if axis != fast)
        if named or fast != len(strides) - 1:
            arguments.append(str(fast))
        if named:
            arguments.append(f"mucc::Strides<{', '.join(map(str, known))}>")
        return f"mucc::View<{', '.join(arguments)}>"

    def compiles_in(self, stride: Product) -> bool:
        """Whether types of views name a stride that is a number, so that threads compute less."""
        return False

    def alternate(self, first: Operand, second: Operand, axes: Sequence[Sequence[int]], fast: int) -> bool:
        """Whether the elements of two operands alternate in memory along the axis of threads."""
        alike = (first.memory.pointer, first.element, first.strides) == (
            second.memory.pointer,
            second.element,
            second.strides,
        )
        plain = not any(o.rows or o.bounds or o.memory.type.dtype in PACKED for o in (first, second))
        by_two = alike and plain and self._merged_strides(first, axes)[fast] == Product(2)
        return by_two and second.memory.offset == (*first.memory.offset, ONE)

    def _merged_strides(self, operand: Operand, axes: Sequence[Sequence[int]]) -> list[Product]:
        return [operand.strides[run[-1]] if run else ZERO for run in axes]

    def _members(self, axes: Sequence[Sequence[int]], parts: Parts) -> tuple[list[str], list[str], list[str]]:
        """Emit the members of `Op`, their values, and the conditions for vectorised accesses.

        `axes` are those of the kernel, each made of some of the program's; threads lie along `parts.fast`.
        """
        members: list[str] = []
        values: list[str] = []
        fast = parts.fast
        fitting: list[str] = []
        known: dict[str, tuple[str, str]] = {}
        second = set(self.pairs.values())
        for operand in (*self.loads, *self.outputs):
            if operand.member in second:
                continue
            strides = self._merged_strides(operand, axes)
            is_free_output = parts.free_outputs and operand in self.outputs
            free = operand.is_single or operand.member in parts.free_loads or is_free_output
            packed = operand.memory.type.dtype in PACKED
            lanes = "kAny" if free or packed else _lane_kind(strides[fast])
            view = self._view_type(operand, strides, fast, lanes)
            data = operand.memory.data(operand.element)
            value = f"{{{data}, {{{', '.join(map(str, strides))}}}}}"
            if (counted := self._counted(operand.member, axes)) is not None:
                view, value = f"mucc::Counter<{len(axes)}, {counted}, {fast}>", "{}"
                lanes = "kSame"  # nothing is read
            if operand.member in self.pairs:
                axis = "" if fast == len(axes) - 1 else f", {fast}"
                view, value = f"mucc::Alternating<{operand.element}, {len(axes)}{axis}>", f"{{{value}}}"
                lanes = "kUnit"
            if named := operand.rows:
                view, value = f"mucc::Rows<{view}>", f"{{{value}, {named.stride}, {named.count}}}"
            for bound in operand.bounds:
                type, index = known[bound.index]
                view = f"mucc::Within<{view}, {type}>"
                value = f"{{{value}, {index}, {{{bound.low}, {bound.count}}}}}"
            known[operand.member] = (view, value)
            described = f"{operand.memory.name}: {operand.memory.type}"
            members.append(f"{view} {operand.member};  // {comment_text(described)}")
            values.append(value)
            if lanes == "kUnit":
                width = parts.output_vector if operand in self.outputs else "Op::kVector"
                fitting.append(f"mucc::{parts.fits}(op.{operand.member}, {width})")
        for member, bound in self.ranges:
            members.append(f"mucc::Range {member};")
            values.append(f"{{{bound.low}, {bound.count}}}")
        for member, scalar in self.scalars:
            members.append(f"float {member};")
            values.append(scalar.expression)
        return members, values, fitting
