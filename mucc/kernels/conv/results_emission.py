"""C++ of the pointwise work behind a convolution, a part of which is the same for all of a channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.types import PACKED
from mucc.kernels.conv.per_channel import per_channel

if TYPE_CHECKING:
    from mucc.kernels.conv.emission import ConvWork


def results_text(work: ConvWork, convolved: SSAValue) -> list[str]:
    """Return the members of `Work` that compute results, fetch what they read into L2, and store them."""
    names = [f"of{i}" for i in range(len(work.outputs))]
    stores = [
        f"    mucc::store({output.member}, p, results.{name});"
        for output, name in zip(work.outputs, names, strict=True)
    ]
    measured = [] if (node := work.conv.moments) is None else [work.lanes[node.value]]
    wanted, shared = [store.value for store in work.op.stores], per_channel(work.conv)
    nodes = work.nodes_for(wanted)
    once = [op for op in nodes if op.results[0] in shared]
    each = [op for op in nodes if op.results[0] not in shared]
    taken = dict.fromkeys([*wanted, *(v for op in each for v in op.operands)])
    kept = [work.lanes[v] for v in taken if v in shared]
    fetched = _fetched(work, each)
    sums = f"mucc::Lanes<V> const& {work.lanes[convolved]}"
    given = f"P const& p, PerChannel<V> const& of_channels, {sums}"
    return [
        "  template <int V>",
        "  struct Results {",
        *(f"    mucc::Lanes<V> {name};" for name in names),
        *("    mucc::Lanes<V> measured;" for _ in measured),
        "  };",
        "  template <int V>",
        "  struct PerChannel {",
        *(f"    mucc::Lanes<V> {name};" for name in kept),
        "  };",
        "  template <int V, class P>",
        "  MUCC_DEVICE PerChannel<V> per_channel(P const& p) const {",
        *_statements(work, once),
        f"    return {{{', '.join(kept)}}};",
        "  }",
        "  template <int V, class P>",
        f"  MUCC_DEVICE Results<V> results({given}) const {{",
        *(f"    auto const& {name} = of_channels.{name};" for name in kept),
        *_statements(work, each),
        f"    return {{{', '.join([*work.results, *measured])}}};",
        "  }",
        "  template <int V, class P>",
        f"  MUCC_DEVICE Results<V> results(P const& p, {sums}) const {{",
        f"    return results<V>(p, per_channel<V>(p), {work.lanes[convolved]});",
        "  }",
        f"  static constexpr bool kFetches = {str(bool(fetched)).lower()};",
        "  template <int V, class P>",
        "  MUCC_DEVICE void fetch(P const& p, uint32_t step) const {",
        *(f"    mucc::prefetch<V>({member}, p, step);" for member in fetched),
        "  }",
        "  template <int V, class P>",
        "  MUCC_DEVICE void write(P const& p, Results<V> const& results) const {",
        *stores,
        "  }",
        "  template <int V, class P>",
        "  MUCC_DEVICE void store(P const& p, mucc::Lanes<V> const& sums) const {",
        "    write<V>(p, results<V>(p, sums));",
        "  }",
    ]


def _statements(work: ConvWork, nodes: Sequence[Operation]) -> list[str]:
    return [f"    {work.lines[op]}" for op in nodes if work.lines[op]]


def _fetched(work: ConvWork, nodes: Sequence[Operation]) -> list[str]:
    """Return the tensors with an element for each result, which lie along channels as results do."""
    loads = [load for op in nodes for load in work.read.get(op, ())]
    return [
        load.member
        for load in loads
        if load.strides[work.conv.channel_axis].is_one
        and not (load.rows or load.bounds or load.memory.pointer == "nullptr")
        and load.memory.type.dtype not in PACKED
    ]
