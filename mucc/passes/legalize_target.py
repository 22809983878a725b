"""Legalise for the architecture: demands of its kernels on shapes become promises of the caller or errors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp

from mucc.dialects.cutlass.attributes import RequirementAttr
from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.mu.types import TensorType, is_packed
from mucc.dialects.rewriting import Finding, Pass, PassError
from mucc.kernels.registry import kind_of


def _shared_bytes(program: ProgramOp) -> Iterator[RequirementAttr]:
    """Yield what tensors of 4-bit elements demand of dims: rows of whole bytes."""
    for arg, name in zip(program.body.block.args, program.arg_names, strict=True):
        type = arg.type
        if not isinstance(type, TensorType) or not is_packed(type.element_type):
            continue
        if isinstance(extent := type.dims[-1], str):
            reason = f"two {type.dtype} of '{name.data}' share a byte"
            yield RequirementAttr.of(extent, 2, reason)


def _legalise(program: ProgramOp) -> list[Finding]:
    found: dict[tuple[str, str], RequirementAttr] = {}
    findings: list[Finding] = []
    demands = (d for kernel in program.kernels for d in kind_of(kernel).requirements(program, kernel))
    for demand in chain(_shared_bytes(program), demands):
        if isinstance(demand, Finding):
            findings.append(demand)
            continue
        key = demand.dim.data, demand.bound.data
        if key not in found or demand.is_stricter(found[key]):
            found[key] = demand
    if found:
        program.requirements = ArrayAttr(list(found.values()))
    return findings


class LegalizeTarget(Pass):
    """Derive the promises about dims that a caller makes, and refuse extents that break them."""

    name = "legalize-target"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        findings: list[Finding] = []
        for program in op.body.block.ops:
            if isinstance(program, ProgramOp):
                findings.extend(_legalise(program))
        if findings:
            raise PassError(findings)
