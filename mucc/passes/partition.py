"""Decide which operation runs in which device kernel.

The operations of a kernel are visited in order. An anchor (a contraction, a reduction, a scan, ...) opens a
stage of the kind of kernel that claims it, unless the kernel of a stage that has its operand in flight takes
it as well. A pointwise operation joins the newest stage that has one of its operands in flight, when its
shape is the stage's and none of its other operands depends on that stage. What joins nothing floats: it is
pulled into every stage that needs it, and gets a map stage of its own only where memory needs it (an operand
that a kernel reads from memory, a pinned or returned value).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from xdsl.ir import Block, Operation, SSAValue

from mucc.dialects.mu.ops.attention import ScoresOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import ConstantOp, ElementwiseOp, ExtentOp, RetypeOp
from mucc.dialects.mu.ops.indexed import PickOp
from mucc.dialects.mu.ops.kernel import ReturnOp
from mucc.dialects.mu.ops.stage import PinOp, before_turning
from mucc.dialects.mu.ops.views import AXIS_VIEWS, BroadcastOp, GeneratedOp, IndexMapOp, RegroupOp
from mucc.dialects.mu.types import Dims
from mucc.dialects.walk import postorder
from mucc.kernels.interface import Joins
from mucc.kernels.lowering.access import Axes, identity, operand_axes
from mucc.kernels.lowering.inputs import Inputs
from mucc.kernels.traffic import NOTHING, Traffic
from mucc.passes.candidates import beside, computed, elsewhere, integers, range_of, taken, unreached
from mucc.passes.column_ranges import is_stored_by_ranges
from mucc.passes.forming import Candidate, Decision, Needs, Place, Stage, added, best, joins
from mucc.passes.stored_forms import StoredForms
from mucc.passes.values import VIEWS, Values, dims_of

NO_SIZES: Mapping[str, int] = MappingProxyType({})
"""Stages are formed for large open dims, and do not depend on the sizes that schedules are chosen for."""


@dataclass(eq=False)
class Partition(Values):
    """The stages of one kernel, and where each value lives."""

    stages: list[Stage] = field(default_factory=list[Stage])
    joined: dict[Operation, AnchorOp] = field(default_factory=dict[Operation, AnchorOp])
    """For each operation that joined a stage, what that is built around."""
    returned: set[SSAValue] = field(default_factory=set[SSAValue])
    """The results of the kernel, behind pins."""
    inputs: Inputs = field(default_factory=Inputs)
    scores: set[SSAValue] = field(default_factory=set[SSAValue])
    """Scores of attention, and what pointwise work makes of them."""
    decisions: list[Decision] | None = None
    """Where each operation is computed, in order, if that is to be explained."""

    @staticmethod
    def of(
        block: Block,
        target: str | None = None,
        forms: StoredForms | None = None,
        earlier: Partition | None = None,
        *,
        explained: bool = False,
    ) -> Partition:
        """Partition the operations of a kernel's block for a target.

        `forms` are those of stored values. What `earlier` joined to a stage joins it again.
        """
        self = Partition(forms=forms or StoredForms(), target=target)
        self.decisions = [] if explained else None
        known = earlier.joined if earlier is not None else {}
        for op in block.ops:
            match op:
                case AnchorOp():
                    self._anchor(op, known.get(op))
                case PickOp():
                    self._pick(op)
                case RegroupOp():
                    self._regroup(op)
                case IndexMapOp():
                    self._index_map(op)
                case _ if isinstance(op, (*AXIS_VIEWS, BroadcastOp)):
                    self._view(op)
                case PinOp():
                    self._pin(op)
                case ReturnOp():
                    self._outputs(op)
                case ScoresOp():
                    self.scores.add(op.result)
                case ElementwiseOp() if not self.scores.isdisjoint(map(self.root, op.operands)):
                    self._score(op)
                case ElementwiseOp():
                    self._pointwise(op, known.get(op))
                case _:
                    continue
        return self

    def _anchor(self, op: AnchorOp, earlier: AnchorOp | None) -> None:
        kind = self.kind_of(op)
        in_memory = kind.memory_operands(op)
        needs: Needs = {}
        for operand in in_memory:
            self._materialise(operand)
            self._narrow(operand)
            self._unrepeat(operand, kind.repeats(op, operand))
            needs |= self.needs(operand, is_narrow=True)
        home = self.home.get(op.operands[0]) if op.operands[0] not in in_memory else None
        candidates = [] if home is None else [taken(self, home, op, needs)]
        candidates += [beside(self, s, op) for s in self._computing(op) if s is not home]
        candidates.append(Candidate(Place.OPENED, None, Joins(NOTHING, 0)))
        chosen = best(candidates, NO_SIZES, earlier)
        if (stage := chosen.stage) is not None:
            self._join(stage, op)
        else:
            stage = Stage(kind, op, kind.space(op))
            self.stages.append(stage)
        for operand in op.operands:
            if operand not in in_memory and self.home.get(operand) is not stage:
                stage.read(self.needs(operand))
        if stage.kind.keeps_in_flight(op):
            self._keep(op.results[0], stage, stage.kind.placed(stage, op))
        self._decide(op, chosen._replace(stage=stage), candidates)
        stage.read(needs)
        if op.results[0] not in self.home:
            self.written[op.results[0]] = stage
            stage.store(op.results[0])

    def _computing(self, op: AnchorOp) -> list[Stage]:
        """Return the stages whose kernels can compute a further anchor beside their own."""
        anchored = ((stage, stage.anchor) for stage in self.stages)
        return [s for s, anchor in anchored if anchor and s.kind.computes_with(anchor, op, self.inputs)]

    def _join(self, stage: Stage, op: Operation) -> None:
        stage.members.append(op)
        if stage.anchor is not None:
            self.joined[op] = stage.anchor

    def _keep(self, value: SSAValue, stage: Stage, axes: Axes | None) -> None:
        """Note that a stage has a value in flight, along these axes of its space."""
        assert axes is not None
        self.home[value] = stage
        stage.axes[value] = axes

    def _view(self, op: Operation) -> None:
        """Keep a view of a value in flight, too, if the kernel can compute with it."""
        stage = self.home.get(op.operands[0])
        if stage is not None and (axes := stage.kind.placed(stage, op)) is not None:
            self._keep(op.results[0], stage, axes)

    def _decide(self, op: Operation, chosen: Candidate, candidates: list[Candidate]) -> None:
        if self.decisions is not None:
            known = {c.stage for c in candidates}
            others = (unreached(self, v) for v in op.operands)
            more = {c.stage: c for c in others if c is not None and c.stage not in known | {chosen.stage}}
            self.decisions.append(Decision(op, chosen, [*candidates, *more.values()]))

    def _regroup(self, op: RegroupOp) -> None:
        """Keep a value in flight if its only use is a result of other extents; store other values first."""
        value = op.operand
        is_result = all(isinstance(use.operation, ReturnOp) for use in op.result.uses) and op.result.first_use
        if is_result:
            stage = self.home.get(value)
            if stage is not None and stage.anchor is not None and stage.kind.stores_regrouped(stage.anchor):
                self._join(stage, op)
                self.home[op.result] = stage
                return
            if self._is_regrouped(op.result) or self._stores_anew(value, op):
                return
        self._materialise(value)

    def _stores_anew(self, value: SSAValue, op: RegroupOp) -> bool:
        """Let the stage of an anchor store its result with other extents, if nothing else reads that."""
        stage, anchor = self.written.get(value), before_turning(value).owner
        if stage is None or not isinstance(anchor, AnchorOp) or not value.has_one_use():
            return False
        if not stage.kind.stores_regrouped(anchor):
            return False
        self._join(stage, op)
        self._store_instead(stage, value, op.result)
        return True

    def _stores_turned(self, value: SSAValue) -> Stage | None:
        """Let the stage of an anchor store a copy or view of its result with axes in another order.

        None where the kernel cannot, or something else reads the result.
        """
        result = before_turning(value)
        stage, anchor = self.written.get(result), result.owner
        if stage is None or not isinstance(anchor, AnchorOp):
            return None
        between, places = value, identity(dims_of(value))
        while between is not result:
            view = between.owner
            assert isinstance(view, Operation)
            places = operand_axes(view, view.operands[0], places)
            between = view.operands[0]
            if not between.has_one_use():
                return None
        if not stage.kind.stores_turned(anchor, places):
            return None
        self._store_instead(stage, result, value)
        return stage

    def _store_instead(self, stage: Stage, value: SSAValue, other: SSAValue) -> None:
        stage.stored[stage.stored.index(value)] = other
        del self.written[value]
        self.written[other] = stage

    def _is_regrouped(self, value: SSAValue) -> bool:
        """Whether a value is computed by a map and stored with other extents."""
        if not isinstance(op := value.owner, RegroupOp):
            return False
        is_stored = any(self.writer(form) is not None for form in self.forms.of(op.operand))
        return not is_stored and isinstance(op.operand.owner, ElementwiseOp)

    def _space(self, value: SSAValue) -> Dims:
        """Return the extents over which a map computes a value."""
        owner = value.owner
        return dims_of(owner.operand if isinstance(owner, RegroupOp) and self._is_regrouped(value) else value)

    def _index_map(self, op: IndexMapOp) -> None:
        """Keep a range of a stage's columns in flight if the stage stores it; others read memory."""
        stage = self.home.get(op.operand)
        if stage is None or op.operand in self.ranges or not is_stored_by_ranges(op.operand, self.target):
            self._materialise(op.operand)
            return
        self._join(stage, op)
        self.home[op.result] = stage
        self.ranges[op.result] = op

    def _pick(self, op: PickOp) -> None:
        """Store the operand of a pick if it is computed or picked itself: picks read memory."""
        for operand in op.operands:
            self._materialise(operand)
            self._unrepeat(operand, None)
        value = self.behind_pins(op.operand)
        while isinstance(view := value.owner, VIEWS) and value not in self.written:
            if isinstance(view, PickOp):
                self._map([value])
                return
            value = self.behind_pins(view.operand)

    def _pointwise(self, op: ElementwiseOp, earlier: AnchorOp | None) -> None:
        if before_turning(op.result) is not op.result and (stage := self._stores_turned(op.result)):
            self._join(stage, op)
            chosen = joins(stage, Traffic.of(op.result.type) * 2)
            self._decide(op, chosen, [chosen])
            return
        homes = {stage for v in op.operands if (stage := self.home.get(v)) is not None}
        alone: Needs = {}
        if homes:
            for operand in op.operands:
                alone |= self.needs(operand)
        newest = sorted(homes, key=self.stages.index, reverse=True)
        candidates = [computed(self, stage, op, added(alone)) for stage in newest]
        candidates.append(Candidate(Place.RECOMPUTED, None, Joins()))
        chosen = best(candidates, NO_SIZES, earlier)
        if (stage := chosen.stage) is not None:
            for root in integers(self, stage, op):
                self._map([root])
            needs = elsewhere(self, stage, op)
            self._join(stage, op)
            stage.read(needs)
            if (part := range_of(self, stage, op)) is not None:
                self.home[op.result] = stage
                self.ranges[op.result] = part
            else:
                self._keep(op.result, stage, stage.kind.placed(stage, op))
        self._decide(op, chosen, candidates)

    def _score(self, op: ElementwiseOp) -> None:
        """Keep pointwise work on scores out of other stages: only the kernel of attention has scores."""
        self.scores.add(op.result)
        alone = Candidate(Place.RECOMPUTED, None, Joins())
        self._decide(op, alone, [alone])

    def _pin(self, op: PinOp) -> None:
        value = self.behind_pins(op.operand)
        if isinstance(value.owner, ElementwiseOp) and self.writer(value) is None:
            self._map([value])
        if (stage := self.writer(value)) is None:
            # A parameter or a view: the stage is a copy, and the pin's result is what it writes.
            stage = self._map([op.result], copies=[op.operand])
        else:
            # What is pinned is read from memory from here on: nothing joins its stage through it.
            self.pinned[op.result] = value
            self.home.pop(value, None)
            self.written[value] = stage
            stage.store(value)
        stage.name = stage.name or op.stage.data

    def _outputs(self, op: ReturnOp) -> None:
        lone: list[SSAValue] = []
        for operand in op.operands:
            value = self.behind_pins(operand)
            self.returned.add(value)
            stage = self.writer(value) or self._storing(value)
            if stage is None and isinstance(value.owner, AXIS_VIEWS):
                stage = self._stores_turned(value)
            if stage is not None:
                stage.store(value)
            else:
                lone.append(value)
        for group in self._by_space(lone):
            self._map(group)

    def _by_space(self, values: Iterable[SSAValue]) -> list[list[SSAValue]]:
        """Group values by the extents over which a map computes them, in order, each value once."""
        groups: dict[Dims, list[SSAValue]] = {}
        for value in values:
            group = groups.setdefault(self._space(value), [])
            if value not in group:
                group.append(value)
        return list(groups.values())

    def _materialise(self, value: SSAValue) -> None:
        """Add a map that stores the value behind views, if it is computed and no stage stores it."""
        root = self.root(value)
        forms = self.forms.of(root)
        is_computed = isinstance(root.owner, ElementwiseOp | GeneratedOp)
        if is_computed and all(self.writer(form) is None for form in forms):
            self._map(forms)

    def _narrow(self, value: SSAValue) -> None:
        """Add a map that stores what is behind views in its own dtype, if it is stored in f32 alone.

        An anchor reads its operands in their own dtype.
        """
        root = self.root(value)
        if isinstance(root.owner, RetypeOp) and root in self.forms.wide and self.writer(root) is None:
            self._map([root])

    def _unrepeat(self, value: SSAValue, repeats: Collection[int] | None) -> None:
        """Store what views make of an operand if they repeat elements along other axes of it than these.

        None stands for an operand that is no broadcast at all. A repeated literal is stored in any case: no
        kernel reads a literal as an operand.
        """
        axes, value = identity(dims_of(value)), self.behind_pins(value)
        while (
            isinstance(view := value.owner, (*AXIS_VIEWS, BroadcastOp, IndexMapOp))
            and value not in self.written
        ):
            inner = axes if isinstance(view, IndexMapOp) else operand_axes(view, view.operand, axes)
            is_repeated = repeats is None or not set(axes) - set(inner) <= {None, *repeats}
            is_repeated |= isinstance(self.behind_pins(view.operand).owner, ConstantOp | ExtentOp)
            if isinstance(view, BroadcastOp) and is_repeated:
                self._map([value])
                return
            axes, value = inner, self.behind_pins(view.operand)

    def _storing(self, value: SSAValue) -> Stage | None:
        """Let a stage that computes a value as an operand store it; None if there is no stage that can."""
        for stage in self.stages:
            fills = stage.kind.stores_operands and dims_of(value) == stage.space
            if fills and value.owner in self.recomputed(stage):
                self.written[value] = stage
                return stage
        return None

    def _map(self, values: Sequence[SSAValue], copies: Sequence[SSAValue] = ()) -> Stage:
        """Add a map stage that writes pointwise values, or copies of what is in memory."""
        stage = Stage(self.kind_of(None), None, self._space(values[0]))
        for value in copies or values:
            stage.read(self.needs(value))
        for value in values:
            stage.store(value)
            if isinstance(value.owner, Operation):
                # A copy of a parameter is for its reader alone: others read the parameter.
                self.written[value] = stage
        self.stages.append(stage)
        return stage

    def recomputed(self, stage: Stage) -> set[Operation]:
        """Return the pointwise operations that a stage recomputes: they have not joined it."""
        anchors = [] if stage.anchor is None else [stage.anchor]
        in_memory = {v for op in anchors for v in self.kind_of(op).memory_operands(op)}
        pending = [v for op in (*anchors, *stage.members) for v in op.operands if v not in in_memory]
        pending += stage.stored
        found: set[Operation] = set()
        while pending:
            for value in self.looked_at(pending.pop()):
                known = self.forms.wide.get(value, value) in stage.reads or value in stage.reads
                if isinstance(op := value.owner, ElementwiseOp) and not known and op not in found:
                    found.add(op)
                    pending += op.operands
        return found - set(stage.members)

    def in_order(self) -> list[Stage]:
        """Return the stages, each after those that it reads from, otherwise as they were opened."""
        done: dict[Stage, None] = {}
        for stage in self.stages:
            done |= dict.fromkeys(postorder(stage, lambda s: s.reads.values(), done))
        return list(done)
