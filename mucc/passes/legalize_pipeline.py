"""Legalise the mainloop's pipeline: as many stages as shared memory holds, or as many as were asked for."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from mucc.dialects.rewriting import Finding, Pass, PassError
from mucc.kernels.gemm.description import config_of
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.passes.legalize_tile import finding_of, gemms


class LegalizePipeline(Pass):
    """Resolve `stages = auto`, and refuse counts that do not fit."""

    name = "legalize-pipeline"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        findings: list[Finding] = []
        for program, gemm in gemms(op):
            target = gemm_target(program.target.data)
            config = config_of(gemm)
            if gemm.stages is None:
                gemm.stages = IntegerAttr(target.max_stages(config), i64)
            violations = target.violations(config, gemm.stages.value.data)
            findings.extend(finding_of(v, program, gemm) for v in violations)
        if findings:
            raise PassError(findings)
