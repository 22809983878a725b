"""What passes share: findings with a place in the source, location-keeping rewrites."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, NamedTuple, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.traits import Pure

from mucc.dialects.mu.ops.elementwise import ConstantOp


class Pass(ABC):
    """A step of the compiler: `mucc.passes.get_all_passes` makes a pass of xDSL of it.

    It is none from the start because xDSL's pass manager, which parses pipelines, takes long to load.
    """

    name: ClassVar[str]

    @abstractmethod
    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        """Rewrite the module in place. Raises PassError where the program is at fault."""

    def notes(self, op: ModuleOp) -> Iterable[Finding]:
        """What a user may want to know of what the pass left as it was."""
        return ()


class Finding(NamedTuple):
    """Something a pass found wrong, in terms of the IR; the driver makes a diagnostic of it.

    `location` is the op's place in the source. `kernel`, `stage` and `setting` name a schedule
    setting to blame instead, and `fix` is source text that would make the setting legal. `settings` are those
    that the contraction has, whoever chose them. `function` is the name in the message of the operation to
    blame: the program may call another function, which consists of it.
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
    """A pass cannot go on; carries all that it found."""

    def __init__(self, findings: Sequence[Finding] | Finding):
        self.findings = (findings,) if isinstance(findings, Finding) else tuple(findings)
        super().__init__("\n".join(f"error[{f.code}]: {f.message}{_place(f)}" for f in self.findings))


def _place(finding: Finding) -> str:
    if isinstance(loc := finding.location, FileLineColLoc):
        return f" ({loc.filename.data}:{loc.line.data}:{loc.column.data})"
    return ""


def locate(op: Operation, origin: Operation) -> None:
    """Give `op` and all ops inside it the location of `origin`, where they have none of their own."""
    for inner in op.walk():
        if not isinstance(inner.location, FileLineColLoc):
            inner.location = origin.location


def _is_dead(op: Operation) -> bool:
    return all(r.first_use is None for r in op.results) and op.has_trait(Pure)


class _Located(RewritePattern):
    """Erases a dead op, or applies the first pattern that matches.

    Every op that a pattern inserts gets the location of the op that it matched.
    """

    def __init__(self, patterns: Sequence[RewritePattern]):
        self.patterns = patterns

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if _is_dead(op):
            rewriter.erase(op)
            return
        inserted: list[Operation] = []
        handlers = rewriter.operation_insertion_handler
        handlers.append(inserted.append)
        location = op.location
        try:
            for pattern in self.patterns:
                pattern.match_and_rewrite(op, rewriter)
                if rewriter.has_done_action:
                    break
        finally:
            handlers.remove(inserted.append)
        for new in inserted:
            if not isinstance(new.location, FileLineColLoc):
                new.location = location


def rewrite(module: ModuleOp, patterns: Sequence[RewritePattern]) -> None:
    """Apply patterns to a fixed point, keeping source locations."""
    PatternRewriteWalker(_Located(patterns)).rewrite_module(module)


def erase_dead(region: Region) -> None:
    """Erase pure ops whose results nobody uses, last first, in a region without nested regions of its own."""
    for op in reversed(list(region.block.ops)):
        if _is_dead(op):
            op.detach()
            op.erase()


K = TypeVar("K", bound=Hashable)


class Emit:
    """Collects the ops of one expansion, with the arithmetic written as expressions."""

    def __init__(self) -> None:
        self.ops: list[Operation] = []

    def __call__(self, op: Operation) -> SSAValue:
        self.ops.append(op)
        return op.results[0]

    def number(self, value: float) -> SSAValue:
        return self(ConstantOp(value))
