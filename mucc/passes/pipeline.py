"""The compiler's passes in order, and the level of the IR that each one reaches."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mucc.dialects.rewriting import Pass
from mucc.kernels.registry import kinds
from mucc.passes import levels
from mucc.passes.associate_products import AssociateProducts
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
from mucc.passes.scale_products import ScaleProducts
from mucc.passes.select_schedule import SelectSchedule
from mucc.passes.sum_operands import SumOperands

Step = tuple[Pass, Level]


def staging(target: str) -> tuple[Step, ...]:
    """Return the steps from a frontend's `mu` module to stages, one for each device kernel."""
    return (
        (PromiseExtents(), levels.MU),
        (MuCanonicalize(), levels.MU),
        (AssociateProducts(), levels.MU),
        (SumOperands(), levels.MU),
        (ContractSums(), levels.MU),
        (NarrowOperands(target), levels.MU),
        *((p, levels.MU) for kind in kinds() for p in kind.operand_passes(target)),
        (Decompose(target), levels.DECOMPOSED),
        (CheckLowering(target), levels.PRIMITIVE),
        (MuCanonicalize(), levels.PRIMITIVE),
        (ScaleProducts(), levels.PRIMITIVE),
        (MoveRegroups(), levels.PRIMITIVE),
        (FormStages(target), levels.STAGED),
        *((p, levels.STAGED) for kind in kinds() for p in kind.stage_passes(target)),
    )


def pipeline(
    target: str, dims: Mapping[str, int] = MappingProxyType({}), select: SelectSchedule | None = None
) -> tuple[Step, ...]:
    """Return the steps from a frontend's `mu` module to a `cutlass` module ready for emission.

    Schedules are chosen for `dims`, typical values of dims that the program leaves open, or by `select`.
    """
    return (
        *staging(target),
        (ConvertToCutlass(target), levels.LOWERED),
        (FuseEpilogue(), levels.FUSED),
        *((p, levels.FUSED) for kind in kinds() for p in kind.kernel_passes(target, dims)),
        (select or SelectSchedule.for_sizes(dims), levels.SCHEDULED),
        (LegalizeTile(), levels.SCHEDULED),
        (LegalizePipeline(), levels.RESOLVED),
        (PrepareOperands(), levels.RESOLVED),
        (LegalizeTarget(), levels.RESOLVED),
        (PlanWorkspace(), levels.CUTLASS),
    )
