"""Legalise tile, cluster, mainloop and scheduler: refuse combinations that the target does not have."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.cutlass import ops as c
from mucc.dialects.rewriting import Finding, Pass, PassError
from mucc.kernels.gemm.description import config_of
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.config import Violation
from mucc.passes.select_schedule import settings_in


def gemms(module: ModuleOp) -> Iterator[tuple[c.ProgramOp, GemmOp]]:
    """Every contraction with the program that launches it."""
    for program in module.body.block.ops:
        if isinstance(program, c.ProgramOp):
            for kernel in program.kernels:
                if isinstance(kernel, GemmOp):
                    yield program, kernel


def finding_of(violation: Violation, program: c.ProgramOp, gemm: GemmOp) -> Finding:
    """A violation as a finding that blames the schedule setting."""
    return Finding(
        code=violation.code,
        message=violation.message,
        location=gemm.location,
        kernel=program.sym_name.data,
        stage=gemm.stage.data,
        setting=violation.setting,
        notes=violation.notes,
        helps=violation.helps,
        fix=violation.fix,
        settings=settings_in(gemm),
    )


class LegalizeTile(Pass):
    """Check everything that a schedule sets, except the stage count."""

    name = "legalize-tile"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        findings: list[Finding] = []
        for program, gemm in gemms(op):
            target = gemm_target(program.target.data)
            config = config_of(gemm)
            violations = target.grouped_violations(config) or target.violations(config)
            findings.extend(finding_of(v, program, gemm) for v in violations)
        if findings:
            raise PassError(findings)
