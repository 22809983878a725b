"""The base of passes, their findings, and rewriting that keeps source locations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, NamedTuple, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, OpResult, Region, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.traits import Pure

from mucc.dialects.locations import place_of
from mucc.dialects.mu.ops.elementwise import ConstantOp, DivOp, ExtentOp, MulOp
from mucc.dialects.mu.ops.views import SqueezeOp, TransposeOp
from mucc.library.extents import Dim


class Pass(ABC):
    """Base of compiler passes; `mucc.passes.get_all_passes` wraps them as passes of xDSL.

    This class is not an xDSL `ModulePass`, because the module that defines that class loads slowly.
    """

    name: ClassVar[str]

    @abstractmethod
    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        """Rewrite the module in place. Raises PassError where the program is wrong."""

    def notes(self, op: ModuleOp) -> Iterable[Finding]:
        """Report optimisations that the pass did not apply, as notes for the user."""
        return ()


class Finding(NamedTuple):
    """An error or a note of a pass, in terms of the IR; the driver turns it into a diagnostic.

    `location` is the op's place in the source. `kernel`, `stage` and `setting` name the schedule setting at
    fault instead, and `fix` is source text that would make the setting legal. `settings` are all settings of
    the contraction, pinned or chosen. `function` is the operation's name in the message; the source may call
    a function that was decomposed into this operation.
    """

    code: str
    message: str
    location: Attribute | None = None
    kernel: str | None = None
    stage: str | None = None
    setting: str | None = None
    notes: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()
    fix: str | None = None
    function: str | None = None
    settings: Mapping[str, Attribute] = MappingProxyType({})


class PassError(Exception):
    """A pass cannot go on because of `findings`."""

    def __init__(self, findings: Sequence[Finding] | Finding):
        self.findings = (findings,) if isinstance(findings, Finding) else tuple(findings)
        super().__init__("\n".join(f"error[{f.code}]: {f.message}{place_text(f)}" for f in self.findings))


def place_text(finding: Finding) -> str:
    """Print the place of a finding in the source, with a space before it; empty where none is known."""
    if (loc := place_of(finding.location)) is not None:
        return f" ({loc.filename.data}:{loc.line.data}:{loc.column.data})"
    return ""


def locate(op: Operation, origin: Operation) -> None:
    """Give the location of `origin` to `op` and to all ops inside `op` that have none."""
    for inner in op.walk():
        if place_of(inner.location) is None:
            inner.location = origin.location


def _is_dead(op: Operation) -> bool:
    return all(r.first_use is None for r in op.results) and op.has_trait(Pure)


class _LocationKeepingPattern(RewritePattern):
    """Erase a dead op, or apply the first pattern that matches.

    Every op that a pattern inserts gets the location of the matched op. A value may be replaced by one in
    another layout: layouts of views are then inferred anew.
    """

    def __init__(self, patterns: Sequence[RewritePattern]):
        self.patterns = patterns

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if _is_dead(op):
            rewriter.erase(op)
            return
        inserted: list[Operation] = []
        values: list[SSAValue] = []

        def replaced(_op: Operation, new_results: Sequence[SSAValue | None]) -> None:
            values.extend(value for value in new_results if value is not None)

        handlers, replacements = rewriter.operation_insertion_handler, rewriter.operation_replacement_handler
        handlers.append(inserted.append)
        replacements.append(replaced)
        location = op.location
        try:
            for pattern in self.patterns:
                pattern.match_and_rewrite(op, rewriter)
                if rewriter.has_done_action:
                    break
        finally:
            handlers.remove(inserted.append)
            replacements.remove(replaced)
        for value in values:
            _infer_layouts(value, rewriter)
        for new in inserted:
            if place_of(new.location) is None:
                new.location = location


def _infer_layouts(value: SSAValue, rewriter: PatternRewriter) -> None:
    """Infer the types of views of a value again, as far as they follow from its layout."""
    for op in [use.operation for use in value.uses]:
        if isinstance(op, TransposeOp | SqueezeOp) and (type := op.inferred()) != op.result.type:
            _infer_layouts(rewriter.replace_value_with_new_type(op.result, type), rewriter)


def rewrite(module: ModuleOp, patterns: Sequence[RewritePattern]) -> None:
    """Apply patterns to a fixed point, keeping source locations."""
    PatternRewriteWalker(_LocationKeepingPattern(patterns)).rewrite_module(module)


def erase_unused(op: Operation) -> None:
    """Erase a pure op if its results are unused, then those that only it has read."""
    pending = [op]
    while pending:
        op = pending.pop()
        if op.parent is not None and _is_dead(op):
            pending += [value.op for value in op.operands if isinstance(value, OpResult)]
            op.detach()
            op.erase()


def erase_dead(region: Region) -> None:
    """Erase pure ops with unused results, last first, in a region whose ops have no regions."""
    for op in reversed(list(region.block.ops)):
        if _is_dead(op):
            op.detach()
            op.erase()


K = TypeVar("K", bound=Hashable)


class Emit:
    """Collect the ops of a rewrite; calling it with an op adds the op and returns the op's result."""

    def __init__(self) -> None:
        self.ops: list[Operation] = []

    def __call__(self, op: Operation) -> SSAValue:
        self.ops.append(op)
        return op.results[0]

    def discard(self) -> None:
        """Erase the ops of a rewrite that is given up: as long as they exist they use their operands."""
        while self.ops:
            self.ops.pop().erase()

    def number(self, value: float) -> SSAValue:
        return self(ConstantOp(value))

    def divided(self, value: SSAValue, count: Dim) -> SSAValue:
        """Divide by an extent: multiply by its reciprocal, which a thread computes once for several."""
        if isinstance(count, int):
            share = self.number(1 / count)
        else:
            share = self(DivOp(self.number(1.0), self(ExtentOp(count))))
        return self(MulOp(value, share))
