"""Legalise the mainloop's pipeline: set its stage count, or check the one that the user pinned."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.rewriting import Finding, Pass, PassError
from mucc.kernels.registry import kernels_of, kind_of


class LegalizePipeline(Pass):
    """Resolve `stages = auto`, and refuse counts that do not fit."""

    name = "legalize-pipeline"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        findings: list[Finding] = []
        for program, kernel in kernels_of(op):
            findings.extend(kind_of(kernel).resolve_pipeline(program, kernel))
        if findings:
            raise PassError(findings)
