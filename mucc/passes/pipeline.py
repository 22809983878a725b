"""The compiler's passes in order, and the level of the IR that each one reaches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.rewriting import Pass
from mucc.kernels.registry import KINDS, Rewrite, one_of, several
from mucc.passes import levels
from mucc.passes.check_lowering import CheckLowering
from mucc.passes.contract_sums import ContractSums
from mucc.passes.convert_to_cutlass import ConvertToCutlass
from mucc.passes.decompose import Decompose
from mucc.passes.form_stages import FormStages
from mucc.passes.fuse_epilogue import FuseEpilogue
from mucc.passes.legalize_pipeline import LegalizePipeline
from mucc.passes.legalize_target import LegalizeTarget
from mucc.passes.legalize_tile import LegalizeTile
from mucc.passes.levels import Level
from mucc.passes.move_regroups import MoveRegroups
from mucc.passes.mu_canonicalize import MuCanonicalize
from mucc.passes.narrow_operands import NarrowOperands
from mucc.passes.plan_workspace import PlanWorkspace
from mucc.passes.prepare_operands import PrepareOperands
from mucc.passes.promise_extents import PromiseExtents
from mucc.passes.select_schedule import SelectSchedule
from mucc.passes.store_conditions import StoreConditions
from mucc.target import get_target

Step = tuple[Pass, Level]

_PRODUCT = one_of("mu.matmul")
_ASSOCIATE = Rewrite("mucc.passes.associate_products:AssociateProducts", (several("mu.matmul"),))
_SUM = Rewrite("mucc.passes.sum_operands:SumOperands", (_PRODUCT, one_of("mu.reduce", "mu.pool")))
_SCALE = Rewrite("mucc.passes.scale_products:ScaleProducts", (_PRODUCT, one_of("mu.mul", "mu.div")))

_REDUCTIONS = one_of("mu.reduce", "mu.variance", "mu.logsumexp", "mu.arg_reduce")
_UNDO = Rewrite(
    "mucc.passes.move_permutes:UndoPermutes",
    (one_of("mu.permute", "mu.transpose"), {"mu.permute": 2, "mu.transpose": 2, **_REDUCTIONS}),
)
_PERMUTE = Rewrite("mucc.passes.move_permutes:MovePermutes", (_PRODUCT, {"mu.permute": 1, "mu.transpose": 2}))

_ANCHORS = {name: 2 for kind in KINDS.values() for name in kind.computes if name}
_MERGE = Rewrite("mucc.passes.merge_anchors:MergeAnchors", (_ANCHORS,))

RARE = (_ASSOCIATE, _SUM, _SCALE, _UNDO, _PERMUTE, _MERGE)
"""Passes of no kind that few programs need."""


def staging(target: str, module: ModuleOp | None = None) -> Iterator[Step]:
    """Yield the steps from a frontend's `mu` module to stages, one for each device kernel.

    With a module, to which each step is applied before the next is asked for, steps are left out that find
    nothing to do in it: their code is not loaded. Raises DiagnosticError with MU4001 for an unknown target.
    """
    get_target(target)

    def sought(rewrites: Iterable[Rewrite], level: Level) -> Iterator[Step]:
        return ((r.made(target=target), level) for r in rewrites if module is None or r.is_for(module))

    yield PromiseExtents(), levels.MU
    yield MuCanonicalize(), levels.MU
    yield from sought((_UNDO, _PERMUTE, _ASSOCIATE, _SUM), levels.MU)
    yield ContractSums(), levels.MU
    yield NarrowOperands(target), levels.MU
    yield from sought((r for kind in KINDS.values() for r in kind.operand_passes.values()), levels.MU)
    yield Decompose(target), levels.DECOMPOSED
    yield CheckLowering(target), levels.PRIMITIVE
    yield MuCanonicalize(), levels.PRIMITIVE
    yield from sought((_SCALE,), levels.PRIMITIVE)
    yield MoveRegroups(), levels.PRIMITIVE
    yield from sought((_MERGE,), levels.PRIMITIVE)
    yield StoreConditions(), levels.PRIMITIVE
    yield FormStages(target), levels.STAGED
    yield from sought((r for kind in KINDS.values() for r in kind.stage_passes.values()), levels.STAGED)


def pipeline(
    target: str,
    dims: Mapping[str, int] = MappingProxyType({}),
    select: SelectSchedule | None = None,
    module: ModuleOp | None = None,
) -> Iterator[Step]:
    """Yield the steps from a frontend's `mu` module to a `cutlass` module ready for emission.

    Schedules are chosen for `dims`, typical values of dims that the program leaves open, or by `select`. See
    `staging` for `module`.
    """
    yield from staging(target, module)
    yield ConvertToCutlass(target), levels.LOWERED
    yield FuseEpilogue(), levels.FUSED
    sizes = tuple(f"{name}={size}" for name, size in dims.items())
    for rewrite in (r for kind in KINDS.values() for r in kind.kernel_passes.values()):
        if module is None or rewrite.is_for(module):
            yield rewrite.made(sizes=sizes), levels.FUSED
    yield select or SelectSchedule.for_sizes(dims), levels.SCHEDULED
    yield LegalizeTile(), levels.SCHEDULED
    yield LegalizePipeline(), levels.RESOLVED
    yield PrepareOperands(), levels.RESOLVED
    yield LegalizeTarget(), levels.RESOLVED
    yield PlanWorkspace(), levels.CUTLASS
