"""Refuse schedules of contractions that a target does not have, and count the stages of their pipelines."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import IntegerAttr, i64

from mucc.dialects.cutlass import ops as c
from mucc.dialects.rewriting import Finding
from mucc.kernels.gemm.description import config_of
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.settings import settings_in


def tile_findings(program: c.ProgramOp, gemm: GemmOp) -> Iterator[Finding]:
    """Return the findings about a schedule, but for its stage count."""
    target = gemm_target(program.target.data)
    config = config_of(gemm)
    violations = target.grouped_violations(config) or target.violations(config)
    return (v.finding(program, gemm, settings_in(gemm)) for v in violations)


def resolve_pipeline(program: c.ProgramOp, gemm: GemmOp) -> Iterator[Finding]:
    """Set the stage count where it is left open, to as many as fit; what is wrong with it."""
    target = gemm_target(program.target.data)
    config = config_of(gemm)
    if gemm.stages is None:
        gemm.stages = IntegerAttr(target.max_stages(config), i64)
    violations = target.violations(config, gemm.stages.value.data)
    return (v.finding(program, gemm, settings_in(gemm)) for v in violations)
