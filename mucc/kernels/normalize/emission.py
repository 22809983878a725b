"""C++ of normalize kernels (mucc/rows.cuh)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

from xdsl.ir import BlockArgument, Operation, SSAValue

from mucc.codegen.across import AcrossWork, is_across
from mucc.codegen.kernel_code import LightCode
from mucc.codegen.memory import Places
from mucc.codegen.names import words
from mucc.codegen.pointwise import THREADS, Operand, Parts
from mucc.codegen.reductions import reduction
from mucc.codegen.texts import Texts
from mucc.dialects.cutlass.nodes import ComputeOp, LoadNode, LoadOp
from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.types import PACKED, Shaped, TensorType, dtype_bytes
from mucc.kernels.normalize.entries import column_entries, row_entries
from mucc.kernels.normalize.moments import (
    is_below_maximum,
    is_sum_of_exponentials,
    sums_exponentials,
    sums_squares,
)
from mucc.kernels.normalize.op import NormalizeKernelOp, RowReduceOp, RowStoreOp
from mucc.kernels.normalize.rows import phases_of, row_output
from mucc.kernels.normalize.splicing import is_arithmetic, spliced
from mucc.target import get_target

_REGISTERS = 32
"""The most numbers of a row that a thread keeps between phases."""
_AT_ONCE = 1 << 21
"""The elements of rows that are in flight together: 128 multiprocessors, 32 warps each, 16 numbers a lane."""


class NormalizeWork(AcrossWork):
    """The C++ of a normalize kernel: pointwise work in phases, with reductions between them."""

    members = words(
        """
        Row Loads S begin load end finish kinds row loads results kInner kPhases kWidest kFew
        kShort kSome kMany kMostThreads kManyThreads kManyBlocks kColumnItems kFills is_inside
        kClusters kTeams kShifted kPairs kPrefetches kLoads kTeamItems kTeamVectors kFirst kMoments
        kExponentials kKnown kOnce
        Results prefetch step is_first
        """
    )

    def __init__(self, op: NormalizeKernelOp, places: Places):
        self.rows = op
        self.of_rows: set[Operation] = set()
        """Loads of what is the same for all elements of a row."""
        super().__init__(op, op.extents, frozenset(op.axes.get_values()), places)

    def node(self, node: Operation) -> None:
        before = len(self.loads)
        if isinstance(node, RowStoreOp):
            self.store(node, row_output(self, node))
            self.lines[node] = ""
            return
        super().node(node)
        is_load = isinstance(node, LoadOp) and isinstance(node.source.type, TensorType)
        if is_load and not any(self._varies(operand) for operand in self.loads[before:]):
            self.of_rows.add(node)

    def expression(self, op: Operation, operands: Sequence[str]) -> str:
        """Emit an operation of a body.

        A sum of exponentials is from 1 to the length of a row: no quotient by it needs scaling. The relative
        error of the short exponential is below 1e-5, which results of at most 16 bits do not show.
        """
        match op:
            case e.DivOp() if is_sum_of_exponentials(self._given(op.rhs)):
                return f"{operands[0]} * mucc::fast_reciprocal({operands[1]})"
            case e.ExpOp() if self._is_narrow and is_below_maximum(op.operand):
                return f"mucc::fast_exp({operands[0]})"
            case _:
                return super().expression(op, operands)

    @property
    def _is_narrow(self) -> bool:
        """Whether all that the kernel stores has at most 16 bits."""
        types = (Shaped.of(store.destination.type) for store in self.op.stores)
        return all(dtype_bytes(type.element_type) <= 2 for type in types)

    def _given(self, value: SSAValue) -> SSAValue:
        """Return what a body is given as an argument; other values are returned as they are."""
        if isinstance(value, BlockArgument) and isinstance(compute := value.block.parent_op(), ComputeOp):
            return compute.inputs[value.index]
        return value

    def _varies(self, operand: Operand) -> bool:
        """Whether a load gets different elements of an operand within a row."""
        return bool(operand.bounds) or any(not operand.strides[axis].is_zero for axis in self.axes)

    @cached_property
    def phases(self) -> list[list[RowReduceOp]]:
        """The reductions by phase: each needs results of earlier phases only."""
        return phases_of(self)

    @cached_property
    def wanted(self) -> list[list[SSAValue]]:
        """The values that each phase reduces; last, those that are stored for all elements."""
        full = [store.value for store in self.op.stores if not isinstance(store, RowStoreOp)]
        return [*([op.value for op in phase] for phase in self.phases), full]

    @cached_property
    def kept(self) -> list[Operation]:
        """The loads of elements that are kept from phase to phase: several need them, or they are early."""
        wanted = {*self._shared, *(self._late if self._are_early else ())}
        return [op for op in self.lines if op in wanted]

    @cached_property
    def _are_early(self) -> bool:
        """Whether the stores' own loads go together with the others.

        If all rows are in flight at once, no other row computes while a row waits for its second loads, and
        registers are not scarce, unless threads have many numbers of a long row.
        """
        if self.rows.has_long_rows or not self.runs_fastest(self.axes):
            return False
        known = {axis: extent for axis, extent in enumerate(self.space) if isinstance(extent, int)}
        if len(known) < len(self.space) or len(self._late) > 2:
            return False
        is_short = math.prod(known[axis] for axis in self.axes) <= 256 * self._numbers[0]
        return is_short and math.prod(known.values()) <= _AT_ONCE

    @cached_property
    def _numbers(self) -> tuple[int, int]:
        """The most numbers of each load in a thread: of rows that 256 threads share, and of longer ones."""
        many = max(_REGISTERS // max(1, len(self._shared)) // 8 * 8, 8)
        return min(many, 16), many

    @cached_property
    def _shared(self) -> list[Operation]:
        """The loads of elements that more than one phase needs."""
        needs = [set(self.nodes_for(values)) for values in self.wanted]
        return [
            op
            for op in self.lines
            if isinstance(op, LoadNode)
            and op not in self.of_rows
            and isinstance(op.source.type, TensorType)
            and sum(op in need for need in needs) > 1
        ]

    @cached_property
    def _late(self) -> list[Operation]:
        """The loads that only the stores of all elements need."""
        is_load = (op for op in self.nodes_for(self.wanted[-1]) if isinstance(op, LoadNode))
        return [op for op in is_load if op not in self._shared and op not in self.of_rows]

    @cached_property
    def _late_operands(self) -> list[Operand]:
        """What the late loads read of plain tensors, by vectors where the kernel has these."""
        operands = (self._plain(op) for op in self._late)
        return [operand for operand in operands if operand is not None and not self._are_early]

    def _plain(self, op: Operation) -> Operand | None:
        """Return the tensor that a load reads, unless an index or bounds say which of its elements."""
        read = self.read.get(op, [])
        if not isinstance(op, LoadOp) or len(read) != 1 or not isinstance(op.source.type, TensorType):
            return None
        (operand,) = read
        is_plain = not (
            operand.rows or operand.bounds or operand.member in {*self.pairs, *self.pairs.values()}
        )
        return operand if is_plain and operand.memory.type.dtype not in PACKED else None

    def _varies_by_row(self, operand: Operand) -> bool:
        """Whether rows have elements of their own of an operand."""
        kept = (axis for axis in range(len(self.space)) if axis not in self.axes)
        return any(not operand.strides[axis].is_zero for axis in kept)

    def _moments(self) -> int:
        """Return which value of the first phase the second one sums the squared distances from the mean of.

        -1 if that is not all that the second phase does.
        """
        if len(self.phases) < 2 or len(self.phases[1]) != 1:
            return -1
        (second,), length = self.phases[1], self.rows.length
        places = [i for i, op in enumerate(self.phases[0]) if sums_squares(second, op, length)]
        return places[0] if places else -1

    def _exponentials(self) -> int:
        """Return which value of the first phase, a maximum, the second one sums exp(value - maximum) of.

        -1 if that is not all that the second phase does.
        """
        if len(self.phases) < 2 or len(self.phases[1]) != 1:
            return -1
        (second,) = self.phases[1]
        places = [i for i, op in enumerate(self.phases[0]) if sums_exponentials(second, op)]
        return places[0] if places else -1

    @property
    def _filling(self) -> list[Operand]:
        """The operands that have elements of their own within a row."""
        stores = zip(self.op.stores, self.outputs, strict=True)
        return [
            *(operand for operand in self.loads if self._varies(operand)),
            *(output for node, output in stores if not isinstance(node, RowStoreOp)),
        ]

    @property
    def _keeps_pairs(self) -> bool:
        """Whether threads keep elements of one bf16 tensor, pairs, and reduce what is arithmetic of them."""
        kept = [self._plain(op) for op in self._shared]
        bodies = (op for op in self.nodes_for(self.wanted[0]) if isinstance(op, ComputeOp))
        is_one = len(kept) == 1 and kept[0] is not None and kept[0].memory.type.dtype == "bf16"
        return is_one and all(map(is_arithmetic, bodies))

    def texts(self, entry: str) -> Texts:
        """Return the C++ of the kernel in parts."""
        kept, gone = self.merged()
        inner, rank = self.runs_fastest(self.axes), len(kept) + len(gone)
        has_teams = self.rows.has_long_rows
        has_clusters = not inner and get_target(self.places.program.target.data).has_clusters
        widest = max(map(len, self.phases))
        vector = self.widest if inner or widest <= 2 else min(self.widest, 4)
        loads = max(1, len(self._shared))
        late = len(self._late)
        some, many = self._numbers
        short = max(vector, 16 // loads)
        is_shifted = inner and self.is_shifted(self.rows.length, vector, self._filling)
        return self.assemble(
            Parts(
                fast=rank - 1 if inner else len(kept) - 1,
                constants=[
                    f"static constexpr int kRank = {rank}, kVector = {vector}, kThreads = {THREADS};",
                    f"static constexpr int kKept = {len(kept)}, kPhases = {len(self.phases)}, "
                    f"kWidest = {widest};",
                    f"static constexpr int kFew = 8, kShort = {short}, kSome = {some}, kMany = {many};",
                    "static constexpr int kMostThreads = 1024, kManyThreads = 512;",
                    "static constexpr int kManyBlocks = 2;",
                    f"static constexpr int kColumnItems = {max(64 // vector // loads, 1)};",
                    f"static constexpr int kLoads = {len(self.kept)};",
                    f"static constexpr int kTeamItems = {min(max(12 // (loads + late), 1), 8)};",
                    f"static constexpr int kTeamVectors = {min(max(6 // (loads + late), 1), 16 // vector)};",
                    f"static constexpr int kFirst = {len(self.phases[0])}, kMoments = {self._moments()}, "
                    f"kExponentials = {self._exponentials()};",
                    f"static constexpr uint32_t kKnown[] = {{{self.known([*kept, *gone])}}};",
                    f"static constexpr bool kInner = {_bool(inner)}, kTeams = {_bool(has_teams)};",
                    f"static constexpr bool kClusters = {_bool(has_clusters)};",
                    f"static constexpr bool kFills = {_bool(bool(self.wanted[-1]))};",
                    f"static constexpr bool kShifted = {_bool(is_shifted)}, "
                    f"kPairs = {_bool(self._keeps_pairs)};",
                    f"static constexpr bool kPrefetches = {_bool(inner and bool(self._late_operands))};",
                ],
                work=self._work(),
                entries=row_entries(entry, has_teams) if inner else column_entries(entry, has_clusters),
                launcher="launch_rows",
                scratch="rows_scratch" if has_teams else None,
                fits="fits_shifted" if is_shifted else "fits",
                spliced=self._spliced(),
            )
        )

    def _spliced(self) -> list[str]:
        """Return the names of the bodies that are spliced; none where the length of rows is known.

        Kernels for rows of any length take most of a second to compile, those for a known length a fourth.
        """
        if not self.is_open:
            return []
        computing = [op for op in self.lines if isinstance(op, ComputeOp)]
        names = {op: body.name for op, body in zip(computing, self.bodies, strict=True)}
        wanted = [set(self.nodes_for(values)) for values in self.wanted]
        return [names[op] for op in spliced(computing, wanted, self._is_of_row)]

    def _is_of_row(self, value: SSAValue) -> bool:
        """Whether a value is the same for all elements of a row: a reduction, a number, a load for rows."""
        op = value.owner
        assert isinstance(op, Operation)
        is_number = isinstance(op, LoadOp) and not isinstance(op.source.type, TensorType)
        return is_across(op) or is_number or op in self.of_rows

    def _work(self) -> list[str]:
        reduced = [op for phase in self.phases for op in phase]
        of_rows = [op for op in self.lines if op in self.of_rows]
        text = [
            *_struct("Row", [self.lanes[op.results[0]] for op in (*of_rows, *reduced)]),
            *_struct("Loads", [self.lanes[op.results[0]] for op in self.kept]),
            *_function("begin", "P const& p, Row<V>& row", self._loading(of_rows, "row")),
            *_function("load", "P const& p, Loads<V>& loads", self._loading(self.kept, "loads")),
            *_function(
                "prefetch",
                "P const& p, uint32_t step, bool is_first",
                [
                    f"    {'' if self._varies_by_row(operand) else 'if (is_first) '}"
                    f"mucc::prefetch<V>({operand.member}, p, step);"
                    for operand in self._late_operands
                ],
            ),
        ]
        given = "P const& p, Row<V> const& row, Loads<V> const& loads"
        for k, (phase, wanted) in enumerate(zip(self.phases, self.wanted, strict=False)):
            kinds = ", ".join(reduction(op.kind.data, op.value) for op in phase)
            returned = ", ".join(self.lanes[value] for value in wanted)
            taken = [f"    row.{self.lanes[op.result]} = results.of[{i}];" for i, op in enumerate(phase)]
            values = f"mucc::RowValues<V, {len(phase)}>"
            lines = [*self._computing(wanted), f"    return {{{{{returned}}}}};"]
            text += [
                f"  static MUCC_DEVICE mucc::RowKinds<{kinds}> kinds(mucc::Phase<{k}>) {{ return {{}}; }}",
                *_function("values", f"mucc::Phase<{k}>, {given}", lines, returns=values),
                "  template <int V>",
                f"  MUCC_DEVICE void end(mucc::Phase<{k}>, Row<V>& row, {values} const& results) const {{",
                *taken,
                "  }",
            ]
        full, of_rows_too = self._stores(), self._row_stores()
        names = [f"of{i}" for i in range(len(full))]
        text += _struct("Results", names)
        returned = ", ".join(
            result
            for node, result in zip(self.op.stores, self.results, strict=True)
            if not isinstance(node, RowStoreOp)
        )
        lines = [*self._computing(self.wanted[-1]), f"    return {{{returned}}};"]
        text += _function("results", given, lines, returns="Results<V>")
        given = "P const& p, Results<V> const& results, bool is_inside"
        text += _function("store", given, full, "bool kOnce = false, int V, class P")
        values = [store.value for store in self.op.stores if isinstance(store, RowStoreOp)]
        finished = [*self._computing(values), *of_rows_too]
        return text + _function("finish", "P const& p, Row<V> const& row", finished, "int V, int S, class P")

    def _loading(self, ops: Sequence[Operation], to: str) -> list[str]:
        """Return the statements that load what a struct keeps."""
        lines: list[str] = []
        for op in ops:
            name = self.lanes[op.results[0]]
            lines.append(f"    {to}.{name} = {self.lines[op].partition(' = ')[2]}")
        return lines

    def _computing(self, wanted: Sequence[SSAValue]) -> list[str]:
        """Return the statements that compute values from what the structs keep, and from further loads."""
        lines: list[str] = []
        for op in self.nodes_for(wanted):
            name = self.lanes[op.results[0]]
            if is_across(op) or op in self.of_rows:
                lines.append(f"    auto const& {name} = row.{name};")
            elif op in self.kept:
                lines.append(f"    auto const& {name} = loads.{name};")
            elif self.lines[op]:
                lines.append(f"    {self.lines[op]}")
        return lines

    def _stores(self) -> list[str]:
        """Return the statements that store results that fill the space."""
        outputs = [
            output
            for node, output in zip(self.op.stores, self.outputs, strict=True)
            if not isinstance(node, RowStoreOp)
        ]
        return [
            f"    if (is_inside) mucc::store_hinted<kOnce>({output.member}, p, results.of{i});"
            for i, output in enumerate(outputs)
        ]

    def _row_stores(self) -> list[str]:
        return [
            f"    mucc::store({output.member}, p, mucc::first_lanes<S>({result}));"
            for node, output, result in zip(self.op.stores, self.outputs, self.results, strict=True)
            if isinstance(node, RowStoreOp)
        ]


def _bool(value: bool) -> str:
    return str(value).lower()


def _struct(name: str, members: Sequence[str]) -> list[str]:
    return [
        "  template <int V>",
        f"  struct {name} {{",
        *(f"    mucc::Lanes<V> {m};" for m in members),
        "  };",
    ]


def _function(
    name: str, given: str, lines: Sequence[str], over: str = "int V, class P", returns: str = "void"
) -> list[str]:
    return [f"  template <{over}>", f"  MUCC_DEVICE {returns} {name}({given}) const {{", *lines, "  }"]


class NormalizeCode(LightCode):
    """A kernel of mucc/rows.cuh."""

    HEADER = "mucc/rows.cuh"
    LAUNCH_HEADER = "mucc/rows_launch.h"

    def __init__(self, op: NormalizeKernelOp, places: Places):
        self.op, self.places = op, places

    def summary(self) -> str:
        axes = list(self.op.axes.get_values())
        return f"normalize of [{', '.join(map(str, self.op.extents))}] along axes {axes}"

    def texts(self, entry: str) -> Texts:
        return NormalizeWork(self.op, self.places).texts(entry)
