"""Track where values of a kernel live while stages are formed: in flight in a stage, or in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops.attention import ScoresOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.indexed import PickOp
from mucc.dialects.mu.ops.views import VIEWS as PLAIN_VIEWS
from mucc.dialects.mu.ops.views import GeneratedOp
from mucc.dialects.mu.types import Dims, Shaped
from mucc.kernels.interface import Kind
from mucc.kernels.registry import claimant
from mucc.passes.forming import Needs, Stage
from mucc.passes.stored_forms import StoredForms

VIEWS = (*PLAIN_VIEWS, PickOp)


def dims_of(value: SSAValue) -> Dims:
    return Shaped.of(value.type).dims


@dataclass(eq=False)
class Values:
    """The values of a kernel, with the stages that compute and write them so far."""

    home: dict[SSAValue, Stage] = field(default_factory=dict[SSAValue, Stage])
    """In-flight values: computed in a stage, usable there without going through memory."""
    written: dict[SSAValue, Stage] = field(default_factory=dict[SSAValue, Stage])
    """Values to be read from memory only: reductions, pinned values, results of map stages."""
    ranges: dict[SSAValue, Operation] = field(default_factory=dict[SSAValue, Operation])
    """Values of `home` that are a range of a stage's columns, or computed of one -> the range's slice."""
    pinned: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """The result of a pin -> the value whose stored form it names."""
    forms: StoredForms = field(default_factory=StoredForms)
    target: str | None = None

    def behind_pins(self, value: SSAValue) -> SSAValue:
        """Return the value that a pin's result names."""
        while value in self.pinned:
            value = self.pinned[value]
        return value

    def root(self, value: SSAValue) -> SSAValue:
        """Return the value behind views and pins."""
        return self.looked_at(value)[0]

    def looked_at(self, value: SSAValue) -> list[SSAValue]:
        """Return the value behind views and pins, and the index tensors of picked elements on the way."""
        value = self.behind_pins(value)
        rows: list[SSAValue] = []
        while isinstance(view := value.owner, VIEWS) and self.writer(value) is None:
            if isinstance(view, PickOp):
                rows += self.looked_at(view.rows)
            value = self.behind_pins(view.operand)
        return [value, *rows]

    def writer(self, value: SSAValue) -> Stage | None:
        """Return the stage that computes a value; None for parameters and values without a stage."""
        return self.home.get(value) or self.written.get(value)

    def kind_of(self, anchor: AnchorOp | None) -> Kind[Any]:
        """Return the kind of kernel around an anchor; for None the kind of pointwise work alone."""
        kind = claimant(anchor, self.target)
        assert kind is not None, f"no kind of kernel claims {anchor}"
        return kind

    def beside(self, value: SSAValue) -> list[Operation]:
        """Return the pointwise operations and reductions of the stage that computes a value."""
        stage = self.home.get(value)
        return stage.members if stage is not None else []

    def needs(self, value: SSAValue, *, is_narrow: bool = False) -> Needs:
        """Return the values in memory from which `value` is computed afresh, with their writers.

        A bool has no form in memory: it is computed again wherever it is needed. What is stored in f32 too is
        read so, but not by a kernel that takes it at its own dtype (`is_narrow`).
        """
        found: Needs = {}
        seen: set[SSAValue] = set()
        pending = [value]
        while pending:
            root, *rows = self.looked_at(pending.pop())
            pending += reversed(rows)
            if root in seen:
                continue
            seen.add(root)
            wide = self.forms.wide.get(root, root)
            if not is_narrow and self.writer(wide) is not None:
                root = wide
            stage = self.writer(root)
            if stage is not None and Shaped.of(root.type).element_type != i1:
                found[root] = stage
            elif isinstance(root.owner, ScoresOp):
                for operand in root.owner.operands:
                    found |= self.needs(operand, is_narrow=True)
            elif isinstance(root.owner, ElementwiseOp | GeneratedOp):
                pending += reversed(root.owner.operands)
        return found
