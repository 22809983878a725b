"""The inputs of pointwise work: the values behind it that something else computes."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops.elementwise import ElementwiseOp

Transparent = tuple[type[Operation], ...]
"""Operations through which the search for inputs goes on to their operands."""


@dataclass(eq=False)
class Inputs:
    """The inputs of values, each found once: an analysis of IR that stays as it is while this is used.

    Stages are compared with every anchor that follows, so that a program with many of them would be walked
    once for each pair.
    """

    _found: dict[tuple[SSAValue, Transparent], frozenset[SSAValue]] = field(
        default_factory=dict[tuple[SSAValue, Transparent], frozenset[SSAValue]]
    )

    def of(self, value: SSAValue, through: Transparent = (ElementwiseOp,)) -> frozenset[SSAValue]:
        """Return the values that a value's pointwise work starts from; the value itself if it has none.

        Operations of the types `through` count as pointwise work.
        """
        key = value, through
        if key not in self._found:
            self._found[key] = frozenset(_inputs(value, through))
        return self._found[key]


def _inputs(value: SSAValue, through: Transparent) -> set[SSAValue]:
    found, seen, pending = set[SSAValue](), {value}, [value]
    while pending:
        reached = pending.pop()
        if isinstance(owner := reached.owner, through):
            new = [v for v in owner.operands if v not in seen]
            seen.update(new)
            pending += new
        else:
            found.add(reached)
    return found
