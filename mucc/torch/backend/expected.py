"""Predict how long regions of a graph take: as kernels of mucc, and as Inductor lowers them.

Both come from the same rates of a card, so that errors of the rates cancel. Where they do not, Inductor is
favoured: it fuses everything that it might, and its libraries reach the rates that were measured.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, prod
from typing import Any

from xdsl.dialects.builtin import f32

from mucc.analysis.bound import Bound, Rates
from mucc.analysis.products import products
from mucc.analysis.sol import analyse_stage, complete
from mucc.compiler.program import compile_source
from mucc.diagnostics.core import DiagnosticError, Severity, Source
from mucc.dialects.cutlass.nodes import StoreNode
from mucc.dialects.cutlass.ops import DeviceKernelOp
from mucc.dialects.mu.ops.attention import AttentionOp, ScoredAttentionOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Shaped, dtype_bytes
from mucc.kernels.registry import kernels_of, kind_of
from mucc.library import extents
from mucc.target.devices import Card
from mucc.torch.backend import host_time
from mucc.torch.backend.attention_rates import F32, MASKED, shares
from mucc.torch.backend.cudnn_rates import DEPTHWISE, cudnn_share, depthwise_products
from mucc.torch.backend.fusible import (
    bytes_of_values,
    is_fused,
    is_pool,
    is_reduction,
    is_view,
    origin_of,
    values_of,
)
from mucc.torch.backend.host_time import Cost
from mucc.torch.importer.capture import torch
from mucc.torch.importer.counting import bytes_of, count_of, read_bytes
from mucc.torch.importer.extents import typical
from mucc.torch.importer.nodes import is_host, tensor_inputs
from mucc.torch.importer.partition import Graph, Node, returned
from mucc.torch.importer.work import work_of

LAUNCH = 2.5e-6
"""Seconds that a launch adds to a kernel in a stream, as the cost model of sm_90a has it."""

CALL = 5e-6
"""Seconds that a kernel which multiplies matrices takes on an H200 beside its work at the least: 5 to 10 us
for products of cuBLAS at sizes up to 2048 (`bench/results/h200/gemm.json`)."""

NEAR = 160
"""The operations before and behind a call that count for what a region around it gains."""

PRODUCT = 0.75
"""The share of its bound that a product of cuBLAS reaches beside `CALL`: 0.66 to 0.89 for the linear layers
of ConvNeXt-B on an H100, by bandwidth or tensor cores. No product of mucc is expected to reach more."""

PRODUCTS = frozenset(("mm", "addmm", "bmm", "baddbmm", "linear", "matmul"))
"""The operations that are products of matrices, by name."""

FUSED = 0.8
"""The share of the bandwidth that fused kernels of Inductor reach: 0.65 to 0.82 for those of ConvNeXt-B that
move more than fits into L2, on an H100."""

OTHERS = 0.85
"""The share of Inductor's speed that kernels of other stages reach; of reductions decision 35 has it."""


CONVOLVED = 0.65
"""The share of the speed of memory that convolutions reach: 1.3 to 2.1 TB/s on an H100, where 1x1 layers and
transposed ones of `bench/results/h100_sxm/conv.json` move most."""


@dataclass(frozen=True)
class Predicted:
    """The predicted time of one kernel of mucc, or the reason why it cannot be compiled.

    A call launches `kernels`; `copies` of its operands are made before, each by a kernel of Inductor's.
    """

    seconds: float
    kernels: int = 0
    copies: int = 0
    problem: str | None = None

    @property
    def host(self) -> float:
        """The seconds that the host takes for a call."""
        return host_time.launching(self.kernels) + host_time.LAUNCH * self.copies


def costs_of(card: Card) -> Costs:
    """Return the predictor of times on a card, which all graphs of the process share."""
    key = card.target.name, card.device.key, tuple(sorted(card.device.measured.items()))
    return _COSTS.setdefault(key, Costs(card))


@dataclass
class Costs:
    """Predictor of times on one card."""

    card: Card
    known: dict[tuple[str, tuple[tuple[str, int], ...]], Predicted] = field(
        default_factory=dict[tuple[str, tuple[tuple[str, int], ...]], Predicted]
    )

    @cached_property
    def rates(self) -> Rates:
        return Rates(self.card.device, self.card.target.facts.multiprocessor, measured=True)

    def kernel(self, program: str, dims: Mapping[str, int]) -> Predicted:
        """Predict the time of a program of one kernel, for typical values of its open dims."""
        key = program, tuple(sorted(dims.items()))
        if key not in self.known:
            self.known[key] = self._predicted(program, dims)
        return self.known[key]

    def _predicted(self, program: str, dims: Mapping[str, int]) -> Predicted:
        target = self.card.target.name
        try:
            # What is taken is compiled again to be built, and verified then.
            made = compile_source(Source("<torch.compile>", program), target, dims=dims, verify=False)
        except DiagnosticError as error:
            first = next(d for d in error.diagnostics if d.severity is Severity.ERROR)
            return Predicted(inf, problem=f"{first.code}: {first.message}")
        except Exception as error:  # a defect of mucc must not cost the graph
            return Predicted(inf, problem=f"MU9001: {type(error).__name__}: {error}".splitlines()[0])
        stages = self._stages(made.stages, dims)
        total, count = 0.0, 0
        for _, op in kernels_of(made.cutlass):
            kind = kind_of(op)
            count += 1
            # What only moves values for a stage (copies, zeros, padding) has the stage's name before a dot.
            name, _, what = op.stage.data.partition(".")
            if what:
                total += self.moved(2 * _stored_bytes(op, dims)) / OTHERS + LAUNCH
                continue
            bound, multiplies, share = stages[name]
            begin = CALL if multiplies else LAUNCH
            alone = kind.seconds(target, op, dims)
            # The measured share of its bound says more about attention than the model of schedules.
            is_measured = share != OTHERS
            workload = None if is_measured else kind.workload(target, op, dims)
            if workload is not None:
                estimate = workload.estimate(workload.completed(kind.schedule(op)), self.card.device)
                total += max(estimate.seconds, bound.seconds / (PRODUCT if multiplies else 1.0) + begin)
            elif alone is not None:
                memory = bound.limit("dram")
                moving = memory.seconds / CONVOLVED if memory is not None else 0.0
                total += max(alone, bound.seconds / OTHERS, moving) + LAUNCH
            else:
                total += bound.seconds / (share if is_measured else share * FUSED) + begin
        return Predicted(total, count)

    def _stages(self, module: Any, dims: Mapping[str, int]) -> dict[str, tuple[Bound, bool, float]]:
        """Return the bound of each stage, whether it multiplies matrices, and the share that it reaches."""
        found: dict[str, tuple[Bound, bool, float]] = {}
        for kernel in (op for op in module.body.block.ops if isinstance(op, KernelOp)):
            values = complete(dims, kernel)
            for stage in (op for op in kernel.body.block.ops if isinstance(op, StageOp)):
                # Most masks hide little, and kernels multiply what they hide.
                analysed = analyse_stage(stage, self.rates, values, masked=True)
                multiplies = any(products(op) for op in stage.body.block.ops)
                found[analysed.name] = analysed.bound, multiplies, _reached(stage.anchor, values)
        return found

    def moved(self, bytes: float) -> float:
        """Return the seconds that a fused kernel takes for so many bytes to or from memory."""
        return bytes / (FUSED * self.rates["dram"])

    def call(self, graph: Graph, node: Node) -> float:
        """Predict the time of a library's kernel, or of another operation that Inductor calls as it is."""
        count, work = count_of(node), work_of(node)
        formats = graph.formats
        if count is None:
            units = {"fp32": work.operations}
        else:
            units = count.units(formats.conv if count.by_cudnn else formats.matmul)
        if (products := depthwise_products(node)) is not None:
            moved = self.rates.bound({}, work.bytes).seconds / DEPTHWISE.moved
            computed = self.rates.bound({"fp32": 2 * products}, 0).seconds / DEPTHWISE.computed
            return max(moved, computed) + LAUNCH
        packet = getattr(node.target, "overloadpacket", None)
        if getattr(packet, "__name__", "") in PRODUCTS:
            share = PRODUCT
        else:
            share = cudnn_share(node) if count is not None and count.by_cudnn else _sdpa(node)
        return self.rates.bound(units, work.bytes).seconds / share + CALL


def _stored_bytes(op: DeviceKernelOp, sizes: Mapping[str, int]) -> int:
    """Return the bytes of the tensors that a kernel stores."""
    stored = {node.destination for node in op.walk() if isinstance(node, StoreNode)}
    types = [Shaped.of(destination.type) for destination in stored]
    return sum(prod(extents.values(t.dims, sizes)) * dtype_bytes(t.element_type) for t in types)


def _reached(anchor: AnchorOp | None, sizes: Mapping[str, int]) -> float:
    """Return the share of its bound that a kernel of mucc reaches."""
    if not isinstance(anchor, AttentionOp | ScoredAttentionOp):
        return OTHERS
    if Shaped.of(anchor.query.type).element_type == f32:
        return F32.mucc
    head, keys = (extents.value(n, sizes) for n in (Shaped.of(anchor.key.type).dims[-1], anchor.columns))
    return shares(head, keys, isinstance(anchor, AttentionOp) and anchor.causal is not None).mucc


def _sdpa(node: Node) -> float:
    """Return the share of its bound that a call of PyTorch's attention reaches, 1 of other calls."""
    name = str(getattr(node.target, "overloadpacket", ""))
    if not name.startswith("aten._scaled_dot_product") or not name.endswith(("_attention", "_for_cpu")):
        return 1.0
    names = (a.name for a in node.target._schema.arguments)
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    keys = node.args[1].meta["val"]
    if keys.dtype == torch.float32:
        return F32.torch
    found = shares(typical(keys.shape[-1]), typical(keys.shape[-2]), bool(given.get("is_causal")))
    is_masked = isinstance(given.get("attn_mask", given.get("attn_bias")), torch.fx.Node)
    return found.torch * (MASKED if is_masked else 1.0)


_COSTS: dict[object, Costs] = {}

Group = Collection[Node]


class Lowered:
    """A graph as Inductor lowers it: calls of libraries, and fused kernels of everything between them.

    Operations that hang together are one kernel if no call lies between them. It reads each value from
    outside once, and writes what is read elsewhere. Pools read from memory what is computed of several
    values.
    """

    def __init__(self, graph: Graph, costs: Costs):
        self.graph, self.costs = graph, costs
        self.leaving = set(returned(graph.captured))
        self.nodes = [n for n in graph.nodes if not is_host(n) and not is_view(n)]
        self.reads = {n: dict(self._read(n)) for n in self.nodes}
        self.fused = {n for n in self.nodes if is_fused(n)}
        self.calls = {n: costs.call(graph, n) for n in self.nodes if n not in self.fused}
        self.writes = {n: sum(bytes_of(v) for v in values_of(n)) for n in self.nodes}
        self.left = {origin_of(n) for n in graph.captured.graph.nodes if n.name in self.leaving}
        self.users: dict[Node, list[Node]] = {}
        for node in self.nodes:
            for source in self.reads[node]:
                self.users.setdefault(source, []).append(node)
        self.place = {n: i for i, n in enumerate(self.nodes)}

    def _read(self, node: Node) -> Iterator[tuple[Node, int]]:
        """Yield what a node reads: the producer behind views, and bytes."""
        for source in tensor_inputs(node):
            origin = origin_of(source)
            yield origin, min(read_bytes(node, source), bytes_of_values(origin) or read_bytes(node, source))

    def is_made_for(self, value: Node, region: Collection[Node]) -> bool:
        """Whether Inductor makes a value, a view of what it computes, in the form in which a region reads it.

        Its code computes elements where they are stored, so that nothing is copied. Not so where another
        operation reads what the view is of, or where that is a reduction, which has memory of its own.
        """
        origin = origin_of(value)
        if origin not in self.fused or origin in self.left or is_reduction(origin) or is_pool(origin):
            return False
        return all(user in region for user in self.users.get(origin, ()))

    def near(self, node: Node) -> range:
        """Return the places of the nodes around one, which a region that begins there can change."""
        place = self.place[node]
        return range(max(0, place - NEAR), min(len(self.nodes), place + NEAR))

    def alone(self, region: Group) -> float:
        """Predict the time of a region that is compiled by itself."""
        own = set(region)
        return self._cost([n for n in self.nodes if n in own], ()).gpu

    def seconds(self, groups: Sequence[Group] = ()) -> float:
        """Predict the time on the GPU of what remains if the groups are taken out."""
        return self.cost(groups).gpu

    def cost(self, groups: Sequence[Group] = (), within: range | None = None) -> Cost:
        """Predict the times of what remains if the groups are taken out; infinite if one cannot be by itself.

        A group cannot where a value leaves it and comes back. `within` limits all to a part of the graph.
        """
        nodes = self.nodes if within is None else self.nodes[within.start : within.stop]
        return self._cost(nodes, groups)

    def _cost(self, nodes: Sequence[Node], groups: Sequence[Group]) -> Cost:
        inside = set(nodes)
        owner = {n: g for g, group in enumerate(groups) for n in group if n in inside}
        order = self._order(nodes, owner)
        if order is None:
            return Cost(inf, inf)
        left = {n for n in nodes if n in self.left or any(u not in inside for u in self.users.get(n, ()))}
        phases = self._phases(nodes, owner, order, left)
        leader = {n: n for n in nodes if n in self.fused and n not in owner}

        def find(node: Node) -> Node:
            while leader[node] is not node:
                leader[node] = node = leader[leader[node]]
            return node

        for node in leader:
            for source in self.reads[node]:
                if source in leader and phases[source] == phases[node]:
                    leader[find(node)] = find(source)
        called = [n for n in nodes if n in self.calls and n not in owner]
        read: dict[Node, dict[Node, int]] = {}
        written: dict[Node, None] = {}
        for node in nodes:
            own = find(node) if node in leader else None
            for source, bytes in self.reads[node].items():
                if source in leader and find(source) is not own:
                    written[source] = None
                if own is not None and (source not in leader or find(source) is not own):
                    values = read.setdefault(own, {})
                    values[source] = max(values.get(source, 0), bytes)
            if own is not None:
                read.setdefault(own, {})
        written.update((n, None) for n in left if n in leader)
        moved = sum(sum(values.values()) for values in read.values())
        moving = self.costs.moved(moved + sum(self.writes[n] for n in written))
        return Cost(
            sum(self.calls[n] for n in called) + moving + LAUNCH * len(read),
            host_time.LIBRARY * len(called) + host_time.LAUNCH * len(read),
        )

    def _order(self, nodes: Sequence[Node], owner: Mapping[Node, int]) -> list[Any] | None:
        """Sort nodes and groups after what they read; None if there is a cycle."""

        def unit(node: Node) -> Any:
            return owner.get(node, node)

        waiting: dict[Any, int] = {}
        readers: dict[Any, list[Any]] = {}
        inside = set(nodes)
        for node in nodes:
            own = unit(node)
            waiting.setdefault(own, 0)
            for source in self.reads[node]:
                if source in inside and unit(source) != own:
                    readers.setdefault(unit(source), []).append(own)
                    waiting[own] += 1
        order = [u for u, count in waiting.items() if not count]
        for done in order:
            for reader in readers.get(done, ()):
                waiting[reader] -= 1
                if not waiting[reader]:
                    order.append(reader)
        return order if len(order) == len(waiting) else None

    def _phases(
        self, nodes: Sequence[Node], owner: Mapping[Node, int], order: Sequence[Any], left: Collection[Node]
    ) -> dict[Node, int]:
        """Assign each operation its turn: those that can be fused have even ones, calls odd ones.

        What only fused operations read is computed with the first of them.
        """
        members: dict[Any, list[Node]] = {}
        for node in nodes:
            members.setdefault(owner.get(node, node), []).append(node)
        phases: dict[Node, int] = {}
        for unit in order:
            own = members[unit]
            is_fused = own[0] in self.fused and own[0] not in owner
            phase = 0
            for source in (s for n in own for s in self.reads[n] if s in phases):
                apart = is_fused != (source in self.fused and source not in owner)
                behind = max(2 * self._waits(n, source, owner) for n in own if source in self.reads[n])
                phase = max(phase, phases[source] + max(apart, behind))
            phases.update(dict.fromkeys(own, phase))
        for unit in reversed(order):
            (node, *_) = members[unit]
            if node not in self.fused or node in owner or node in left:
                continue
            later = self.users.get(node, [])
            if later and all(u in self.fused and u not in owner for u in later):
                turns = (phases[u] - 2 * self._waits(u, node, owner) for u in later)
                phases[node] = max(phases[node], min(turns))
        return phases

    def _waits(self, node: Node, source: Node, owner: Mapping[Node, int]) -> bool:
        """Whether a pool reads a fused value from memory, since computing it again would read several."""
        if any(n in owner or n not in self.fused for n in (node, source)) or not is_pool(node):
            return False
        waiting, read = [source], set[Node]()
        while waiting and len(read) < 2:
            for value in self.reads[waiting.pop()]:
                if value in self.fused and value not in owner:
                    waiting.append(value)
                else:
                    read.add(value)
        return len(read) > 1
