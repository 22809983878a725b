"""C++ of attention kernels (mucc/attention.cuh, mucc/attention_wgmma.cuh)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from mucc.codegen.kernel_code import LightCode
from mucc.codegen.memory import VIEW_TYPES, Places
from mucc.codegen.names import words
from mucc.codegen.pointwise import Operand, Parts
from mucc.codegen.texts import Entry, Texts
from mucc.codegen.wgmma import wgmma
from mucc.dialects.cutlass.nodes import READS, StoreOp
from mucc.dialects.cutlass.ops import is_reproducible
from mucc.dialects.mu.types import Dims, Shaped
from mucc.kernels.attention.op import AttendOp, AttentionKernelOp
from mucc.kernels.attention.problem import (
    has_plain_scores,
    problem_of,
    schedule_of,
    settings_in,
    sharing_axes,
)
from mucc.kernels.attention.schedule import WARPGROUP_LOOPS, Schedule, default_tile
from mucc.kernels.attention.score_work import (
    SCORE_MEMBERS,
    ScoreWork,
    boolean,
    dtype_of,
    shared_axes,
    width_of,
)
from mucc.kernels.attention.tiles import WARPGROUP_KEYS, Tile
from mucc.target import get_target


class AttentionCode(LightCode):
    """A kernel of mucc/attention.cuh; on Hopper also one of mucc/attention_wgmma.cuh."""

    LAUNCH_HEADER = "mucc/attention_launch.h"

    def __init__(self, op: AttentionKernelOp, places: Places):
        self.op, self.places = op, places
        self.schedule = schedule_of(op, places.program.target.data)
        is_capable = get_target(places.program.target.data).has_wgmma
        self.has_warpgroups = is_capable and self.schedule.mainloop != "multistage"

    @property
    def light_headers(self) -> tuple[str, ...]:
        return (self.device_header,)

    @property
    def device_header(self) -> str:
        return "mucc/attention_wgmma.cuh" if self.has_warpgroups else "mucc/attention_decode.cuh"

    def summary(self) -> str:
        extents = ", ".join(map(str, self.op.extents))
        return f"{'causal ' if self.op.is_causal else ''}attention over scores [{extents}]"

    def texts(self, entry: str) -> Texts:
        return AttentionWork(self.op, self.places, self.schedule, self.has_warpgroups).texts(entry)


class AttentionWork(ScoreWork):
    """The C++ of an attention kernel: the pointwise work on scores, and that on results."""

    members = SCORE_MEMBERS | words(
        """
        pages kPage multiply_keys multiply_values kColumns kWarpgroups kGroups kStages kTileColumns
        store_sum kStoresSum kSoftmax kHasSink sink kNarrowsFirst kNanRows
        kDecodes kMany kDecodeWarps kDecodeStages kTakesTurns kParts kLeastKeys
        """
    )

    def __init__(self, op: AttentionKernelOp, places: Places, schedule: Schedule, has_warpgroups: bool):
        self.attention = op
        self.schedule = schedule
        self.problem = problem_of(op, places.program.target.data)
        self.has_warpgroups = has_warpgroups
        self.batch = len(op.extents) - 2
        self.width: int = width_of(op.score.query)
        self.result_width: int = width_of(op.attend.value)
        self.labels = op.attend.labels
        super().__init__(op, op.extents, (len(op.extents) - 1,), places)
        self.function = self.function_of(op.score, op.attend.score)

    def node(self, node: Operation) -> None:
        super().node(node)
        if isinstance(node, AttendOp):
            # What follows is over the results.
            self.space: Dims = self.attention.results_space

    @property
    def widest(self) -> int:
        """Return the results that a lane writes at a time: the columns of two or four blocks of 8."""
        if self.attention.is_f32:
            return 4
        return 8 if -(-self.result_width // 16) % 2 == 0 else 4

    def _members(self, axes: Sequence[Sequence[int]], parts: Parts) -> tuple[list[str], list[str], list[str]]:
        members, values, fitting = super()._members(axes, parts)
        query, *rows = self._read
        names = ("query", "key", "value")
        members = [*(f"mucc::attention::Operand<Element, {self.batch}> {n};" for n in names), *members]
        is_paged = self.attention.score.pages is not None
        given = [self.operand(query), *(self.operand(v, in_pages=is_paged) for v in rows), *values]
        if is_paged:
            members.append(f"mucc::attention::Pages<{self.batch}> pages;")
            given.append(self._pages())
        spans, unknown = self.span_member()
        members, given = [*members, *spans], [*given, *unknown]
        members.append(
            "bool packs;  // whether results are written kVector at a time, which the launch finds out"
        )
        of_results = (*self.loads_for(self.stored), *(output for output, _ in self.stored_results))
        packed = {f"mucc::fits(op.{o.member}, Op::kVector)" for o in of_results}
        fitting = [condition for condition in fitting if condition in packed]
        return members, [*given, "false"], fitting

    def _pages(self) -> str:
        """Return the initializer of the table of pages."""
        assert self.attention.score.pages is not None
        dims = (*self.attention.extents[:-2], Shaped.of(self.attention.score.pages.type).dims[-1])
        memory, axes = self.places.view(self.attention.score.pages, dims)
        strides = self._strides(axes)
        extents = [self.places.extent(a.extent) for a in axes]
        leading = ", ".join(f"{{{e}, {s}}}" for e, s in zip(extents[:-1], strides[:-1], strict=True))
        table = f"{{{memory.data('int32_t')}, {strides[-1]}, 0, {extents[-1]}, {{{leading}}}}}"
        key = self.attention.score.key
        rows = self._strides(self.places.view(key, self.in_space(key, 3))[1])
        return f"{{{table}, {self.places.extent(self.attention.pages_in_all)}, ({rows[-3]}) / ({rows[-2]})}}"

    @property
    def stored(self) -> list[SSAValue]:
        """The values that are stored for each result."""
        sums = self.attention.score_sum
        stores = (store for store in self.op.stores if isinstance(store, StoreOp))
        return [s.value for s in stores if sums is None or s.value is not sums.result]

    @property
    def stored_results(self) -> list[tuple[Operand, str]]:
        """The outputs that have a number for each result, and what is stored there."""
        stored = zip(self.outputs, self.results, strict=True)
        return [(output, result) for output, result in stored if output not in self.sums]

    @property
    def sums(self) -> list[Operand]:
        """The outputs that have the log-sum-exp of each row."""
        node = self.attention.score_sum
        stored = zip(self.outputs, self.results, strict=True)
        return [] if node is None else [o for o, result in stored if result == self.lanes[node.result]]

    def texts(self, entry: str) -> Texts:
        """Return the C++ of the kernel in parts."""
        element = VIEW_TYPES[dtype_of(self.attention.attend.value)]
        tile = self._tile("multistage")
        attend = self.attention.attend
        keys = str(self.places.extent(self.attention.extents[-1]))
        wide = self._tile(*WARPGROUP_LOOPS)
        return self.assemble(
            Parts(
                fast=len(self.space) - 1,
                constants=[
                    f"using Element = {element};",
                    f"static constexpr int kBatch = {self.batch}, kRank = {self.batch + 2};",
                    f"static constexpr int kVector = {self.widest};",
                    f"static constexpr int kWidth = {self.width}, kResultWidth = {self.result_width};",
                    f"static constexpr int kRows = {tile.rows}, kColumns = {tile.columns};",
                    f"static constexpr int kThreads = {32 * tile.warps};",
                    *self._warpgroup_constants(wide),
                    *self._decode_constants(),
                    *self.score_constants(self.attention.score, attend, self.is_plain),
                    f"static constexpr int kPage = {self.attention.score.page};",
                    f"static constexpr bool kStoresSum = {boolean(bool(self.sums))};",
                    f"static constexpr bool kHasSink = {boolean(attend.sink is not None)};",
                    *self._narrow_constants(),
                    f"static constexpr bool kSoftmax = {boolean(attend.without_softmax is None)};",
                    f"static constexpr bool kNarrowsFirst = {boolean(self.narrows_first)};",
                    f"static constexpr bool kNanRows = {boolean(attend.nan_rows is not None)};",
                ],
                work=self._work(wide),
                entries=self._entries(entry),
                launcher="attention::launch",
                arguments=[keys],
                scratch="attention::scratch",
                scratch_arguments=[keys],
                # Without kernels on wgmma other instructions come out than where all is compiled together.
                spliced=[self.function.name] if self.function and self.has_warpgroups else (),
                straight=True,
                alone=True,
            )
        )

    def _narrow_constants(self) -> list[str]:
        """Return what is known of transposed values: the axes that share them, the fewest keys of f32."""
        if not self.attention.transposes:
            return []
        shared = shared_axes(self.batch, self.attention.attend.value)
        return [
            f"static constexpr int kSharedValues = {shared};",
            *([f"static constexpr int kLeastKeys = {WARPGROUP_KEYS};"] if self.is_by_size else []),
        ]

    @property
    def is_by_size(self) -> bool:
        """Whether the launch chooses by sizes between kernels on wgmma and those on mma.sync."""
        # A schedule that is given has its kernel at all sizes, and reproducible sums have one kernel.
        is_open = not settings_in(self.attention) and not is_reproducible(self.attention)
        return self.attention.is_f32 and self.has_warpgroups and is_open

    def _tile(self, *mainloops: str) -> Tile:
        """Return the tile of the kernel with one of the mainloops: the schedule's, or the default."""
        if self.schedule.mainloop in mainloops:
            return self.schedule.tile
        return default_tile(self.problem, mainloops[0])

    @property
    def is_plain(self) -> bool:
        """Whether scores are positive multiples of products: their order is that of the products."""
        return has_plain_scores(self.attention)

    @property
    def narrows_first(self) -> bool:
        """Whether results are narrowed to the 16 bits of one tensor before lanes exchange them.

        Work behind attention that reads further tensors reads more of them at a time where it comes last.
        """
        nodes = list(self.op.nodes)
        behind = nodes[nodes.index(self.attention.attend) + 1 :]
        if len(self.stored_results) != 1 or any(isinstance(node, READS) for node in behind):
            return False
        output = self.stored_results[0][0].memory.type
        return output.dtype in ("f16", "bf16")

    def _warpgroup_constants(self, tile: Tile) -> list[str]:
        flags = f"kWarpgroups = {boolean(self.has_warpgroups)}, kMany = {boolean(self.is_many)}"
        flag = f"static constexpr bool {flags};"
        if not self.has_warpgroups:
            return [flag]
        return [
            flag,
            f"static constexpr int kGroups = {tile.warps // 4}, kStages = {tile.stages};",
            f"static constexpr int kTileRows = {tile.rows}, kTileColumns = {tile.columns};",
            *(
                ["static constexpr bool kTakesTurns = false;"]
                if self.schedule.mainloop == "cooperative"
                else []
            ),
        ]

    def _decode_constants(self) -> list[str]:
        """Return what kernels for few queries are built for; the leading axes whose keys are shared."""
        if not self.decodes:
            return ["static constexpr bool kDecodes = false;"]
        tile = self._tile("skinny")
        parts = self.schedule.parts
        sizes = f"kDecodeWarps = {tile.warps}, kDecodeStages = {tile.stages}"
        return [
            "static constexpr bool kDecodes = true;",
            f"static constexpr int kShared = {sharing_axes(self.attention)}, {sizes};",
            *([] if parts is None else [f"static constexpr int kParts = {parts};"]),
        ]

    @property
    def is_many(self) -> bool:
        """Whether there may be so many queries that other kernels take them."""
        return self.problem.is_many

    @property
    def decodes(self) -> bool:
        """Whether there may be so few queries that there are kernels for that."""
        return self.attention.may_decode

    def _work(self, tile: Tile) -> list[str]:
        attend = self.attention.attend
        attended = f"mucc::Lanes<V> const& {self.lanes[attend.result]}"
        lines = [
            *self.score_work(self.attention.score, attend),
            *self._sink(),
            "  template <int V, class P, class To>",
            f"  MUCC_DEVICE void store(P const& p, {attended}, To const& to) const {{",
            *self.statements_for(self.stored),
            *(f"    to({output.member}, p, {result});" for output, result in self.stored_results),
            "  }",
            *self._sum_store(),
        ]
        if self.has_warpgroups:
            width = -(-self.result_width // 16) * 16
            dtype = self.problem.compute
            lines += wgmma("multiply_keys", dtype, tile.columns, from_registers=False, turned=False)
            # Values of 8 and 32 bits are transposed in memory before.
            turned = not self.attention.transposes
            lines += wgmma("multiply_values", dtype, width, from_registers=True, turned=turned)
        return lines

    def _sink(self) -> list[str]:
        """Emit the function that computes the score of the column without a value."""
        if (sink := self.attention.attend.sink) is None:
            return []
        return [
            "  template <class P>",
            "  MUCC_DEVICE float sink(P const& p) const {",
            "    constexpr int V = 1;",
            *self.statements_for([sink]),
            f"    return {self.lanes[sink]}.of[0];",
            "  }",
        ]

    def _sum_store(self) -> list[str]:
        """Emit the function that stores the log-sum-exp of a position's row, if that is stored."""
        if not self.sums:
            return []
        return [
            "  template <class P>",
            "  MUCC_DEVICE void store_sum(P const& p, float sum) const {",
            *(f"    mucc::store({output.member}, p, mucc::Lanes<1>(sum));" for output in self.sums),
            "  }",
        ]

    @property
    def has_pieces(self) -> bool:
        """Whether there are kernels that read operands in pieces; if not, those by elements stand for them.

        Elements of e4m3 become f16 on their way to shared memory one by one. TMA takes all that
        can be read in pieces, but for strides that are not positive. Those that are made of extents are,
        since calls with empty tensors are refused.
        """
        if self.attention.is_narrow:
            return False
        return not self.has_warpgroups or not all(map(self._has_positive_strides, self._read))

    @property
    def _read(self) -> tuple[SSAValue, SSAValue, SSAValue]:
        """The queries, keys and values."""
        return self.attention.score.query, self.attention.score.key, self.attention.attend.value

    def _has_positive_strides(self, value: SSAValue) -> bool:
        """Whether rows and leading axes of an operand have strides greater than 0 if it has elements."""
        _, axes = self.places.view(value, (*self.space[:-2], *Shaped.of(value.type).dims[-2:]))
        extents = self.places.dim_names.values()
        return all(axis.extent == 1 or axis.stride.is_positive(extents) for axis in axes[:-1])

    def _entries(self, entry: str) -> list[Entry]:
        """Return the kernels in the order of `mucc::attention::Form`."""
        given = "Work const op, mucc::Extents<Op::kRank> const extents"
        elements, pieces = (
            Entry(f"{entry}_{form}", given, f"mucc::attention::run<{flag}>(op, extents)")
            for form, flag in (("elements", "false"), ("pieces", "true"))
        )
        has_pieces = self.is_by_size or self.has_pieces
        entries = [elements, pieces if has_pieces else elements] if self.is_many else []
        maps = "__grid_constant__ mucc::attention::Maps const maps"
        if self.has_warpgroups and self.is_many:
            entries.append(
                Entry(
                    f"{entry}_tiles",
                    f"{given}, {maps}, mucc::Tickets const tickets",
                    "mucc::attention::run_tiles(op, extents, maps, tickets)",
                    "128 * (Op::kGroups + 1), 1",
                )
            )
        if self.decodes:
            entries += self._decode_entries(entry, given, maps)
        if self.labels is not None and self.is_many:
            call = "mucc::attention::find_spans<false>(op, extents)"
            entries.append(Entry(f"{entry}_spans", given, call, "mucc::attention::kSpanThreads"))
        if self.attention.transposes and self.has_warpgroups and self.is_many:
            turn = "mucc::attention::turn_values(op, values, pitch)"
            element = "unsigned char" if self.attention.is_narrow else "float"
            given = f"Work const op, {element}* const values, int64_t const pitch"
            entries.append(Entry(f"{entry}_turn", given, turn, "mucc::attention::kTurnThreads"))
        return entries

    def _decode_entries(self, entry: str, given: str, maps: str) -> list[Entry]:
        """Return the kernels for few queries."""
        given += ", mucc::attention::Split const split"
        elements = ("elements", "kElements", "")
        forms = [elements, ("pieces", "kPieces", "") if self.has_pieces else elements]
        if self.has_warpgroups:
            forms.append(("tiles", "kTiles", ", &maps"))
        return [
            Entry(
                f"{entry}_decode_{form}",
                f"{given}, {maps}" if rest else given,
                f"mucc::attention::decode<mucc::attention::{value}>(op, extents, split{rest})",
                "32 * Op::kDecodeWarps",
            )
            for form, value, rest in forms
        ]
