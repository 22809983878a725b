"""What passes share: findings with a place in the source, location-keeping rewrites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.ir import Attribute, Operation, Region
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
)


@dataclass(frozen=True)
class Finding:
    """Something a pass found wrong, in terms of the IR; the driver makes a diagnostic of it.

    `location` is the op's place in the source. `kernel`, `stage` and `setting` name a schedule
    setting to blame instead, and `fix` is source text that would make the setting legal.
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


class _Located(RewritePattern):
    """Runs patterns and gives every op that one inserts the location of the op it matched."""

    def __init__(self, patterns: Sequence[RewritePattern]):
        self.inner = GreedyRewritePatternApplier(list(patterns))

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        location = op.location
        inserted: list[Operation] = []
        handlers = rewriter.operation_insertion_handler
        handlers.append(inserted.append)
        try:
            self.inner.match_and_rewrite(op, rewriter)
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
    from xdsl.traits import Pure

    for op in reversed(list(region.block.ops)):
        if op.has_trait(Pure) and all(r.first_use is None for r in op.results):
            op.detach()
            op.erase()
