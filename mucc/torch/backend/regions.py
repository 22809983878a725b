"""Choose the regions of a graph that mucc computes: those that it is expected to win by more than a margin.

A region begins with what Inductor would call a library for, and grows by what can be fused with that. The
rest stays in the graph, which Inductor compiles as one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from mucc.frontend.source import SourceError
from mucc.torch.backend.emission import Emitter
from mucc.torch.backend.expected import LAUNCH, Costs, Lowered, Predicted
from mucc.torch.backend.fusible import is_fused, values_of
from mucc.torch.backend.graphs import fills_memory
from mucc.torch.backend.measured import Timed
from mucc.torch.importer.capture import torch
from mucc.torch.importer.counting import bytes_of
from mucc.torch.importer.emit import Kernel
from mucc.torch.importer.lowering import Unsupported
from mucc.torch.importer.nodes import is_host, is_part, tensor_inputs
from mucc.torch.importer.partition import Graph, Node, Piece, classify, names_of, readers, returned
from mucc.torch.importer.work import ALIASES

MOST = 64
"""The most operations of a region."""

WORTH = 0.01
"""What a larger region has to gain beyond a smaller one, as a share of the kernel's time."""

LEAST = 0.02
"""The least predicted gain of all regions together, as a share of the graph's time, for which any is taken.

Not with a negative margin, which asks for regions that lose. Predictions are off by more: LeNet-5 was
expected to gain 1.3 percent by one region, and lost 1.8 on an H200.
"""

PLAUSIBLE = 0.5
"""The largest expected loss, as a share of the kernel's time, at which a region is measured all the same."""

HOST = "the host would take longer to launch it, and the graph is as slow as the host"
"""Why a region is not taken that would save time of the GPU while that waits for the host."""

BATCHED = (torch.ops.aten.bmm.default, torch.ops.aten.matmul.default)
"""Batched products of matrices, of which attention has two."""

CONVOLUTION = torch.ops.aten.convolution.default
CONCATENATION = torch.ops.aten.cat.default

TRIED = 2
"""The most regions around one call that are measured, those of largest expected gain."""

Measure = Callable[[Kernel], Timed | None]
Text = Callable[[Kernel], str]


@dataclass(frozen=True)
class Decision:
    """What was decided about a region, and why. Times are predicted, or measured, in seconds.

    `inductor` is what Inductor takes longer with the region than without it, `mucc` what the kernel takes.
    """

    name: str
    nodes: tuple[Node, ...]
    taken: bool
    inductor: float
    mucc: float
    reason: str = ""
    measured: bool = False

    @property
    def gain(self) -> float:
        return self.inductor - self.mucc


@dataclass
class Choice:
    """The regions of a graph: the kernels to use, and each decision in the order of the graph."""

    kernels: list[Kernel] = field(default_factory=list[Kernel])
    decisions: list[Decision] = field(default_factory=list[Decision])
    alone: float = 0.0
    """The predicted seconds of the graph as Inductor alone lowers it."""
    rest: float = 0.0
    """The predicted seconds of what remains to Inductor."""


@dataclass(frozen=True)
class _Candidate:
    """A region that might be taken; see `Decision` for its times."""

    nodes: list[Node]
    inductor: float
    mucc: float
    measured: bool = False

    @property
    def gain(self) -> float:
        return self.inductor - self.mucc


def _best(candidates: Sequence[_Candidate]) -> _Candidate:
    """Return the region of the largest gain; a later one has to gain `WORTH` more."""
    best = candidates[0]
    for candidate in candidates[1:]:
        if candidate.gain > best.gain + WORTH * candidate.mucc:
            best = candidate
    return best


class Chooser:
    """Chooses regions of a graph whose predicted gain is above `margin`, a share of the time that mucc takes.

    `emit` makes kernels of pieces, `text` their programs; programs in `refused` are not taken, for the
    reason there. `measure` has the measured times of regions: where there are any they decide, less what the
    region is predicted to keep Inductor from fusing around it. `begin` is called with each kernel
    that is taken. With `launches` the host launches all kernels: no CUDA graph does.
    """

    def __init__(
        self,
        graph: Graph,
        costs: Costs,
        dims: Mapping[str, int],
        margin: float,
        emit: Emitter,
        text: Text,
        refused: Mapping[str, str],
        measure: Measure | None = None,
        begin: Callable[[Kernel], None] = lambda kernel: None,
        launches: bool = False,
    ):
        self.graph, self.costs, self.dims, self.margin = graph, costs, dims, margin
        self.emit, self.text, self.refused, self.measure = emit, text, refused, measure
        self.begin, self.launches = begin, launches
        self.reasons = classify(graph, None)
        self.lowered = Lowered(graph, costs)
        self.leaving = set(returned(graph.captured))
        self.place = {n: i for i, n in enumerate(graph.nodes)}
        self.taken: list[list[Node]] = []
        self.own: set[Node] = set()
        self.sources: dict[Node, list[Node]] = {}
        self.readers: dict[Node, list[Node]] = {}
        self.known: dict[str, Predicted] = {}
        self.timed: dict[tuple[str, ...], Timed | None] = {}
        self.gained = 0.0
        self.waiting: list[Kernel] = []
        self.found = Choice()

    def choice(self) -> Choice:
        """Return the regions, and what is predicted of them and of the rest."""
        alone = self.lowered.cost()
        self.found.alone = alone.gpu
        self.launches = self.launches and self.margin >= 0 and alone.is_bound_by_host
        for seed in self.lowered.calls:
            if seed not in self.own and _size(seed):
                self._decide(seed)
        if self.waiting:
            self._leave_all()
        self.found.rest = self.lowered.seconds(self.taken)
        return self.found

    def _is_call(self, node: Node) -> bool:
        """Whether Inductor would call a library for an operation."""
        return node in self.lowered.calls

    def _takes(self, node: Node) -> bool:
        """Whether an operation may be part of a region."""
        return (
            node.op == "call_function"
            and node not in self.reasons
            and node not in self.graph.aliases
            and node not in self.graph.constants
            and not is_host(node)
            and node not in self.own
        )

    def _decide(self, seed: Node) -> None:
        """Take the best region around a call, or report why there is none."""
        if seed in self.reasons:
            self._left(seed, self.reasons[seed])
            return
        found: list[_Candidate] = []
        problem = ""
        near = self.lowered.near(seed)
        base = self.lowered.cost(self.taken, near)
        for nodes in self._candidates(seed):
            rest = self.lowered.cost([*self.taken, self._with_copies(nodes)], near)
            inductor = base.gpu - rest.gpu
            if inductor <= 0:
                continue
            predicted = self._predicted(nodes)
            if predicted.problem:
                problem = problem or predicted.problem
                continue
            if self.launches and base.host - rest.host < predicted.host:
                problem = problem or HOST
                continue
            found.append(_Candidate(nodes, inductor, predicted.seconds))
        if not found:
            self._left(seed, problem or "nothing that could be a kernel by itself")
            return
        best = _best(self._measured(found) or found)
        taken = best.gain > self.margin * best.mucc
        what = "measured" if best.measured else "expected"
        reason = "" if taken else f"the {what} gain is below the margin"
        if best.mucc == inf:
            reason = "measured: its results differ from Inductor's"
        kernel = self.emit(Piece(best.nodes))
        self.found.decisions.append(
            Decision(kernel.name, tuple(best.nodes), taken, best.inductor, best.mucc, reason, best.measured)
        )
        if taken:
            self._begin(kernel, inf if best.measured else best.gain)
            self.found.kernels.append(kernel)
            self.taken.append(self._with_copies(best.nodes))
            self.own.update(best.nodes)

    def _begin(self, kernel: Kernel, gain: float) -> None:
        """Begin to build the kernels that are taken, once they gain enough together."""
        self.gained += gain
        self.waiting.append(kernel)
        if self.margin < 0 or self.gained > LEAST * self.found.alone:
            for each in self.waiting:
                self.begin(each)
            self.waiting.clear()

    def _leave_all(self) -> None:
        """Take no region, since all of them together gain too little."""
        reason = f"all regions together are expected to gain less than {LEAST:.0%} of the graph"
        self.found.decisions = [
            replace(d, taken=False, reason=reason) if d.taken else d for d in self.found.decisions
        ]
        self.found.kernels.clear()
        self.taken.clear()

    def _measured(self, found: list[_Candidate]) -> list[_Candidate]:
        """Return the regions that were measured, with what that gave."""
        if self.measure is None:
            return []
        plausible = [c for c in found if c.gain > -PLAUSIBLE * c.mucc]
        made: list[_Candidate] = []
        for candidate in sorted(plausible, key=lambda c: -c.gain)[:TRIED]:
            whole = self._with_copies(candidate.nodes)
            key = tuple(self.emit.form(nodes).text for nodes in (candidate.nodes, whole))
            if key not in self.timed:
                self.timed[key] = self.measure(self.emit(Piece(candidate.nodes)))
            if (timed := self.timed[key]) is not None:
                alone = self.lowered.alone(whole)
                broken = max(0.0, alone - candidate.inductor)
                made.append(_Candidate(candidate.nodes, timed.inductor - broken, timed.mucc, True))
        return made

    def _predicted(self, nodes: list[Node]) -> Predicted:
        """Predict the time of a region, once for all that are equal."""
        key = self.emit.form(nodes).text
        if key not in self.known:
            self.known[key] = self._judged(nodes)
        return self.known[key]

    def _judged(self, nodes: list[Node]) -> Predicted:
        try:
            kernel = self.emit(Piece(nodes))
            program = self.text(kernel)
        except (SourceError, Unsupported) as error:
            return Predicted(inf, problem=str(error))
        if (reason := self.refused.get(program)) is not None:
            return Predicted(inf, problem=reason)
        dims = {name: self.dims[name] for name in kernel.op.dim_names if name in self.dims}
        found = self.costs.kernel(program, dims)
        # What does not fill its memory is copied before a call, each value by an operation of the graph.
        copied = [n for n in kernel.parameters if not fills_memory(n.meta.get("val"))]
        again = sum(self.costs.moved(2 * _size(n)) + LAUNCH for n in copied)
        return replace(found, seconds=found.seconds + again, copies=len(copied))

    def _left(self, seed: Node, reason: str) -> None:
        self.found.decisions.append(
            Decision(seed.name, (seed,), False, self.lowered.calls.get(seed, 0.0), inf, reason)
        )

    # Regions

    def _candidates(self, seed: Node) -> Iterator[list[Node]]:
        """Yield regions around a call, the smallest first, each once."""
        found = [self._sorted(self._with_views({seed}))]
        if weighted := self._with_scores(seed):
            found.append(self._sorted(weighted))
        for prologue in (False, True):
            for joined in (False, True):
                for reductions in (False, True):
                    region = self._grown(seed, prologue, joined, reductions)
                    if region not in found:
                        found.append(region)
        if seed.target is CONVOLUTION:
            found += [whole for region in found if (whole := self._concatenated(region))]
        yield from sorted(found, key=len)

    def _concatenated(self, nodes: Sequence[Node]) -> list[Node]:
        """Add the concatenation that alone reads what a region makes; empty if there is none.

        It makes the region write more. A kernel of a convolution stores its own part, and copies the others.
        """
        region = set(nodes)
        users = self._users(region)
        if [n.target for n in users] != [CONCATENATION] or not self._takes(users[0]):
            return []
        leaves = any(n.name in self.leaving for node in region for n in names_of(self.graph, node))
        if leaves or self._leaves_and_returns({*region, *users}):
            return []
        return self._sorted({*region, *users})

    def _with_scores(self, seed: Node) -> set[Node]:
        """Return a batched product, the one that its left factor is computed from, and what lies between.

        Empty if there is no such product, or more than one.
        """
        if seed.target not in BATCHED:
            return set()
        region, waiting = self._with_views({seed}), [self.graph.resolved(seed.args[0])]
        scores: Node | None = None
        while waiting:
            node = waiting.pop()
            if node in region and not _is_view(node):
                continue
            if not self._takes(node) or len(region) >= MOST or not self._is_own(node, region):
                continue
            if node.target in BATCHED:
                if scores is not None:
                    return set()
                scores = node
                region |= self._with_views({node})
            elif is_fused(node) or _is_view(node):
                region.add(node)
                waiting += self._sources(node)
        return region if scores is not None else set()

    def _grown(self, seed: Node, prologue: bool, joined: bool, reductions: bool) -> list[Node]:
        """Grow a region by its readers, then by what only it reads."""
        region = self._with_views({seed})
        waiting = self._users(region)
        while waiting and len(region) < MOST:
            node = waiting.pop(0)
            if node in region or not self._takes(node) or not (is_fused(node) or is_part(node)):
                continue
            if not reductions and _reduces(node):
                continue
            more = {node}
            if joined:
                more |= self._feeding(node, region, calls=True)
            if self._leaves_and_returns(region | more):
                more = {node}
                if self._leaves_and_returns(region | more):
                    continue
            region |= self._with_views(more)
            waiting = self._users(region)
            waiting = [n for n in waiting if not self._leaves_and_returns(region | {n})]
        self._trim(region, seed)
        if prologue:
            for node in list(region):
                region |= self._feeding(node, region, calls=False)
        return self._sorted(region)

    def _with_copies(self, nodes: Sequence[Node]) -> list[Node]:
        """Add copies and views that only a region reads: its kernel reads the originals instead."""
        region = set(nodes)
        waiting = list(nodes)
        while waiting:
            for source in waiting.pop().all_input_nodes:
                is_free = source in self.graph.aliases or _is_view(source)
                if source in region or not is_free or source.name in self.leaving:
                    continue
                if all(u in region for u in source.users):
                    region.add(source)
                    waiting.append(source)
        return self._sorted(region)

    def _users(self, region: Collection[Node]) -> list[Node]:
        found = {u for n in region for u in self._readers(n) if u.op == "call_function"}
        return self._sorted(u for u in found if u not in region and u in self.place)

    def _sorted(self, nodes: Iterator[Node] | Collection[Node]) -> list[Node]:
        return sorted(nodes, key=self.place.__getitem__)

    def _sources(self, node: Node) -> list[Node]:
        if node not in self.sources:
            self.sources[node] = [self.graph.resolved(s) for s in tensor_inputs(node)]
        return self.sources[node]

    def _readers(self, node: Node) -> list[Node]:
        if node not in self.readers:
            self.readers[node] = readers(self.graph, node)
        return self.readers[node]

    def _with_views(self, nodes: set[Node]) -> set[Node]:
        """Add the parts of tuples, and views that only these nodes read: kernels read through them."""
        region = set(nodes)
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            for part in (u for u in node.users if is_part(u) and self._takes(u)):
                region.add(part)
            for source in self._sources(node):
                if source not in region and _is_view(source) and self._is_own(source, region):
                    region.add(source)
                    waiting.append(source)
        return region

    def _is_own(self, node: Node, region: Collection[Node]) -> bool:
        """Whether only a region reads a value."""
        if not self._takes(node) or any(n.name in self.leaving for n in names_of(self.graph, node)):
            return False
        return all(u in region for u in self._readers(node))

    def _feeding(self, node: Node, region: Collection[Node], calls: bool) -> set[Node]:
        """Return operations that only compute operands of a node; with `calls`, libraries' too."""
        found: set[Node] = set()
        waiting = [node]
        while waiting and len(found) < MOST:
            for source in self._sources(waiting.pop()):
                known = {*region, node, *found}
                if source in known or not self._is_own(source, known):
                    continue
                maker = source.args[0] if is_part(source) else source
                if maker in known or is_fused(maker) or (calls and self._is_call(maker)):
                    found.add(source)
                    waiting.append(source)
        return found

    def _leaves_and_returns(self, region: Collection[Node]) -> bool:
        """Whether a value of a region is read outside by something that the region reads."""
        last = max(self.place[n] for n in region)
        outside: set[Node] = set()
        for node in self.graph.nodes[min(self.place[n] for n in region) : last + 1]:
            sources = self._sources(node)
            if node in region:
                if any(s in outside for s in sources):
                    return True
            elif any(s in region or s in outside for s in sources):
                outside.add(node)
        return False

    def _trim(self, region: set[Node], seed: Node) -> None:
        """Drop operations at the end that make the region write more, or what could follow it as well."""
        changed = True
        while changed:
            changed = False
            for node in reversed(self._sorted(region)):
                if node is seed or any(u in region for u in self._readers(node)):
                    continue
                before = self._written(region)
                after = self._written(region - {node})
                if after < before or (after == before and not self._is_last_of(node, region)):
                    region.discard(node)
                    changed = True

    def _written(self, region: Collection[Node]) -> int:
        return sum(_size(n) for n in region if not is_part(n) and self._is_result(n, region))

    def _is_result(self, node: Node, region: Collection[Node]) -> bool:
        for name in names_of(self.graph, node):
            if name.name in self.leaving:
                return True
            if any(u not in region and u not in self.graph.aliases for u in name.users if u.op != "output"):
                return True
        return False

    def _is_last_of(self, node: Node, region: Collection[Node]) -> bool:
        """Whether an operation computes, and is not only a view or a conversion of what comes before."""
        return not _is_view(node) and not is_part(node)


def _is_view(node: Node) -> bool:
    return getattr(node.target, "overloadpacket", None) in ALIASES


def _reduces(node: Node) -> bool:
    """Whether an operation has fewer elements than it reads."""
    read = max((_size(s) for s in tensor_inputs(node)), default=0)
    return not _is_view(node) and 2 * _size(node) < read


def _size(node: Node) -> int:
    return sum(bytes_of(v) for v in values_of(node))
