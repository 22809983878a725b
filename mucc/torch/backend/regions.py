"""Choose the regions of a graph that mucc computes: those that it is expected to win by more than a margin.

A region begins with what Inductor would call a library for, and grows by what can be fused with that (see
`growing`). The rest stays in the graph, which Inductor compiles as one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from mucc.frontend.source import SourceError
from mucc.torch.backend.emission import Emitter
from mucc.torch.backend.expected import LAUNCH, Costs, Lowered, Predicted
from mucc.torch.backend.graphs import fills_memory
from mucc.torch.backend.growing import Grower, size
from mucc.torch.backend.measured import Timed
from mucc.torch.importer.emit import Kernel
from mucc.torch.importer.lowering import Unsupported
from mucc.torch.importer.partition import Graph, Node, Piece, classify, sources_of

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
        self.reasons = classify(graph, None)  # first: it finds the graph's nodes
        self.lowered = Lowered(graph, costs)
        self.grower = Grower(graph, self.lowered.calls, self.reasons)
        self.taken: list[list[Node]] = []
        self.known: dict[tuple[str, int, int], Predicted] = {}
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
            if seed not in self.grower.own and size(seed):
                self._decide(seed)
        if self.waiting:
            self._leave_all()
        self.found.rest = self.lowered.seconds(self.taken)
        return self.found

    def _decide(self, seed: Node) -> None:
        """Take the best region around a call, or report why there is none."""
        if seed in self.reasons:
            self._left(seed, self.reasons[seed])
            return
        found: list[_Candidate] = []
        problem = ""
        near = self.lowered.near(seed)
        base = self.lowered.cost(self.taken, near)
        for nodes in self.grower.around(seed):
            rest = self.lowered.cost([*self.taken, self.grower.with_copies(nodes)], near)
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
            self.taken.append(self.grower.with_copies(best.nodes))
            self.grower.own.update(best.nodes)

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
            whole = self.grower.with_copies(candidate.nodes)
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
        cut = [s for s in sources_of(self.graph, Piece(nodes)) if not fills_memory(s.meta.get("val"))]
        copied = [s for s in cut if not self.lowered.is_made_for(s, nodes)]
        key = self.emit.form(nodes).text, len(copied), sum(map(size, copied))
        if key not in self.known:
            self.known[key] = self._judged(nodes, copied)
        return self.known[key]

    def _judged(self, nodes: list[Node], copied: list[Node]) -> Predicted:
        """Predict the time of a kernel, with copies of values that do not fill their memory before it."""
        try:
            kernel = self.emit(Piece(nodes))
            program = self.text(kernel)
        except (SourceError, Unsupported) as error:
            return Predicted(inf, problem=str(error))
        if (reason := self.refused.get(program)) is not None:
            return Predicted(inf, problem=reason)
        dims = {name: self.dims[name] for name in kernel.op.dim_names if name in self.dims}
        found = self.costs.kernel(program, dims)
        again = sum(self.costs.moved(2 * size(n)) + LAUNCH for n in copied)
        return replace(found, seconds=found.seconds + again, copies=len(copied))

    def _left(self, seed: Node, reason: str) -> None:
        self.found.decisions.append(
            Decision(seed.name, (seed,), False, self.lowered.calls.get(seed, 0.0), inf, reason)
        )
