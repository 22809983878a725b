"""Legalise schedules: refuse combinations of settings that the target does not have."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.rewriting import Finding, Pass, PassError
from mucc.kernels.registry import kernels_of, kind_of


class LegalizeTile(Pass):
    """Check everything that a schedule sets, except the stage count."""

    name = "legalize-tile"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        findings: list[Finding] = []
        for program, kernel in kernels_of(op):
            findings.extend(kind_of(kernel).schedule_findings(program, kernel))
        if findings:
            raise PassError(findings)
