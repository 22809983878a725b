"""Legalise for the architecture: what its kernels demand of shapes becomes promises or errors."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp

from mucc.dialects.cutlass.attributes import RequirementAttr
from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.mu.types import TensorType, is_packed
from mucc.dialects.rewriting import Finding, Pass, PassError
from mucc.kernels.registry import kind_of


def _shared_bytes(program: ProgramOp) -> dict[str, RequirementAttr]:
    """What tensors whose elements share bytes ask of dims: whole bytes, which they have in any case."""
    found: dict[str, RequirementAttr] = {}
    for arg, name in zip(program.body.block.args, program.arg_names, strict=True):
        type = arg.type
        if not isinstance(type, TensorType) or not is_packed(type.element_type):
            continue
        if isinstance(extent := type.dims[-1], str):
            reason = f"two {type.dtype} of '{name.data}' share a byte"
            found[extent] = RequirementAttr.of(extent, 2, reason)
    return found


def _legalise(program: ProgramOp) -> list[Finding]:
    found = _shared_bytes(program)
    findings: list[Finding] = []
    for kernel in program.kernels:
        for demand in kind_of(kernel).requirements(program, kernel):
            if isinstance(demand, Finding):
                findings.append(demand)
                continue
            known = found.get(demand.dim.data)
            if known is None or known.multiple.data < demand.multiple.data:
                found[demand.dim.data] = demand
    if found:
        program.requirements = ArrayAttr(list(found.values()))
    return findings


class LegalizeTarget(Pass):
    """Derive what the caller must promise about dims, and refuse extents that break it already."""

    name = "legalize-target"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        findings: list[Finding] = []
        for program in op.body.block.ops:
            if isinstance(program, ProgramOp):
                findings.extend(_legalise(program))
        if findings:
            raise PassError(findings)
