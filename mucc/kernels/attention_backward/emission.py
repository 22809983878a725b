"""C++ of kernels for gradients of attention (mucc/attention_backward.cuh)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from mucc.codegen.kernel_code import LightCode
from mucc.codegen.memory import VIEW_TYPES, Places
from mucc.codegen.names import words
from mucc.codegen.pointwise import Parts
from mucc.codegen.texts import Entry, Texts
from mucc.codegen.wgmma import wgmma
from mucc.dialects.mu.ops.attention import OPERANDS, Wanted
from mucc.kernels.attention.score_work import (
    SCORE_MEMBERS,
    ScoreWork,
    boolean,
    dtype_of,
    is_plain,
    shared_axes,
    width_of,
)
from mucc.kernels.attention_backward.op import AttentionBackwardKernelOp, StoreGradientOp
from mucc.kernels.attention_backward.tiles import Tile, part_columns, tile_of


class AttentionBackwardCode(LightCode):
    """A kernel of mucc/attention_backward.cuh."""

    HEADER = "mucc/attention_backward.cuh"
    LAUNCH_HEADER = "mucc/attention_backward_launch.h"

    def __init__(self, op: AttentionBackwardKernelOp, places: Places):
        self.op, self.places = op, places

    def summary(self) -> str:
        extents = ", ".join(map(str, self.op.extents))
        causal = "causal " if self.op.differentiate.causal is not None else ""
        return f"gradients of {causal}attention over scores [{extents}]"

    def texts(self, entry: str) -> Texts:
        return AttentionBackwardWork(self.op, self.places).texts(entry)


class AttentionBackwardWork(ScoreWork):
    """The C++ of a kernel for gradients: the pointwise work on scores, and products."""

    members = SCORE_MEMBERS | words(
        """
        gradient logsumexp sums query_gradient key_gradient value_gradient kQueryStages kGradientStages
        multiply_rows multiply_changes add_keys add_values store_change kStoresChanges kKeepsChanges
        """
    )

    def __init__(self, op: AttentionBackwardKernelOp, places: Places):
        self.kernel = op
        self.batch = len(op.extents) - 2
        self.labels = op.differentiate.labels
        super().__init__(op, op.extents, (len(op.extents) - 1,), places)

    def node(self, node: Operation) -> None:
        # Gradients of queries, keys and values are stored by functions of the header.
        if not isinstance(node, StoreGradientOp):
            super().node(node)
        elif node.of.data is Wanted.MASK:
            self.store(node, self.output(node.destination, self.space))

    def _numbers(self, value: SSAValue) -> str:
        """Return the initializer of numbers of rows."""
        memory, axes = self.places.view(value, self.kernel.extents[:-1])
        strides = self._strides(axes)
        extents = [self.places.extent(a.extent) for a in axes]
        leading = ", ".join(f"{{{e}, {s}}}" for e, s in zip(extents[:-1], strides[:-1], strict=True))
        return f"{{{memory.data('float')}, {strides[-1]}, 0, {extents[-1]}, {{{leading}}}}}"

    def _members(self, axes: Sequence[Sequence[int]], parts: Parts) -> tuple[list[str], list[str], list[str]]:
        members, values, _ = super()._members(axes, parts)
        node = self.kernel.differentiate
        operands = {
            "query": node.query,
            "gradient": node.gradient,
            "key": node.key,
            "value": node.value,
            **{f"{of.value}_gradient": self.kernel.destination(of) for of in OPERANDS},
        }
        matrix = f"mucc::attention::Operand<Element, {self.batch}>"
        numbers = f"mucc::attention_backward::Numbers<{self.batch}>"
        spans, unknown = self.span_member()
        members = [
            *(f"{matrix} {n};" for n in operands),
            *(f"{numbers} {n};" for n in ("logsumexp", "sums")),
            *members,
            *spans,
            "bool packs;  // whether gradients are written 16 bytes at a time, which the launch finds out",
        ]
        given = ["{}" if value is None else self.operand(value) for value in operands.values()]
        given += map(self._numbers, (node.logsumexp, node.sums))
        return members, [*given, *values, *unknown, "false"], []

    def texts(self, entry: str) -> Texts:
        """Return the C++ of the kernel in parts."""
        node = self.kernel.differentiate
        widths = (width_of(node.query), width_of(node.value))
        shared = shared_axes(self.batch, node.key, node.value)
        tile = tile_of(max(widths), stores_changes=bool(self.outputs))
        return self.assemble(
            Parts(
                fast=len(self.space) - 1,
                constants=[
                    f"using Element = {VIEW_TYPES[dtype_of(node.value)]};",
                    f"static constexpr int kBatch = {self.batch}, kRank = {self.batch + 2};",
                    f"static constexpr int kWidth = {widths[0]}, kResultWidth = {widths[1]};",
                    f"static constexpr int kTileRows = {tile.rows};",
                    f"static constexpr int kQueryStages = {tile.query_stages};",
                    f"static constexpr int kGradientStages = {tile.gradient_stages};",
                    f"static constexpr bool kKeepsChanges = {boolean(tile.keeps_changes)};",
                    "static constexpr int kPage = 0;",
                    *(["static constexpr bool kStoresChanges = true;"] if self.outputs else []),
                    "static constexpr bool kSoftmax = true;",
                    f"static constexpr int kShared = {shared};",
                    *self.score_constants(self.kernel.score, node, is_plain(self.kernel.score, node.score)),
                ],
                work=self._work(tile, widths),
                entries=_entries(entry, labels=self.labels is not None, shared=shared),
                launcher="attention_backward::launch",
                scratch="attention_backward::scratch",
            )
        )

    def _work(self, tile: Tile, widths: tuple[int, int]) -> list[str]:
        node = self.kernel.differentiate
        dtype = dtype_of(node.value)
        padded = [-(-w // 16) * 16 for w in widths]
        return [
            *self.score_work(self.kernel.score, node),
            *self._change_store(),
            *wgmma("multiply_rows", dtype, tile.rows, from_registers=False, turned=False),
            *wgmma("add_keys", dtype, padded[0], from_registers=tile.keeps_changes, turned=True),
            *wgmma("add_values", dtype, padded[1], from_registers=True, turned=True),
            *wgmma(
                "multiply_changes",
                dtype,
                part_columns(tile.rows, widths[0]),
                from_registers=False,
                turned=True,
                left_turned=True,
            ),
        ]

    def _change_store(self) -> list[str]:
        """Emit the function that stores the gradient of a score: that of what is added to it."""
        if not self.outputs:
            return []
        return [
            "  template <class P>",
            "  MUCC_DEVICE void store_change(P const& p, float change) const {",
            *(f"    mucc::store({output.member}, p, mucc::Lanes<1>(change));" for output in self.outputs),
            "  }",
        ]


def _entries(entry: str, *, labels: bool, shared: int) -> list[Entry]:
    """Return the kernels in the order of `mucc::attention_backward::Form`."""
    given = "Work const op, mucc::Extents<Op::kRank> const extents"
    maps = "__grid_constant__ mucc::attention_backward::Maps const maps"
    find = "mucc::attention::find_spans<true>(op, extents)"
    keys = [
        Entry(
            f"{entry}_finish_keys",
            f"{given}, mucc::attention_backward::Division const division",
            "mucc::attention_backward::finish_keys(op, extents, division)",
            "256",
        )
    ]
    spans = [Entry(f"{entry}_spans", given, find, "mucc::attention::kSpanThreads")]
    return [
        Entry(
            f"{entry}_multiply",
            f"{given}, {maps}, float* const partials, mucc::attention_backward::Division const division",
            "mucc::attention_backward::multiply(op, extents, maps, partials, division)",
            "384, 1",
        ),
        Entry(
            f"{entry}_finish",
            f"{given}, float* const partials",
            "mucc::attention_backward::finish(op, extents, partials)",
            "256",
        ),
        *(keys if shared else []),
        *(spans if labels else []),
    ]
