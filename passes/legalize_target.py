"""Legalise for the architecture: what its copy engine demands of shapes becomes promises or errors."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Operation, SSAValue

from mucc.dialects.cutlass import ops as c
from mucc.dialects.cutlass.views import view_of
from mucc.dialects.mu.schedule import Mainloop
from mucc.dialects.mu.types import TensorType, dtype_bytes
from mucc.passes.promises import promised_multiple
from mucc.passes.support import Finding, Pass, PassError
from mucc.target import get_target


def tma_tensors(gemm: c.GemmOp) -> Iterator[tuple[SSAValue, Operation]]:
    """The tensors that a kernel moves by TMA, with the op to blame for each.

    A skinny kernel has none: it looks at the addresses of each call.
    """
    if gemm.mainloop is not None and gemm.mainloop.data is Mainloop.SKINNY:
        return
    yield gemm.a, gemm
    yield gemm.b, gemm
    if gemm.b2 is not None:
        yield gemm.b2, gemm
    for op in gemm.nodes:
        if isinstance(op, c.SrcFetchOp | c.AuxLoadOp):
            yield op.source, op
        elif isinstance(op, c.StoreDOp | c.AuxStoreOp):
            yield op.destination, op


def _name(program: c.ProgramOp, value: SSAValue) -> str:
    base = view_of(value).base
    for arg, name in zip(program.body.block.args, program.arg_names, strict=True):
        if arg is base:
            return f"'{name.data}'"
    return "an intermediate"


def _check(
    program: c.ProgramOp, value: SSAValue, op: Operation, granule: int
) -> c.RequirementAttr | Finding | None:
    """The requirement that a tensor's rows be whole granules, or what is wrong with them."""
    type = value.type
    assert isinstance(type, TensorType) and type.unit_axis is not None
    extent = type.dims[type.unit_axis]
    size = dtype_bytes(type.element_type)
    multiple = granule // gcd(granule, size)
    name = _name(program, value)
    if isinstance(extent, int):
        if extent % multiple == 0:
            return None
        padded = -(-extent // multiple) * multiple
        return Finding(
            code="MU3101",
            message=f"rows of {name} have {extent} {type.dtype} elements, {extent * size} bytes, "
            f"but {program.target.data} copies whole multiples of {granule} bytes",
            location=op.location,
            notes=(f"the contiguous extent must be a multiple of {multiple} for {type.dtype}",),
            helps=(f"pad the extent to {padded}",),
        )
    promises = program.promises.data if program.promises else None
    if promised_multiple(promises, program.dim_names, extent) % multiple == 0:
        return None
    reason = f"rows of {name} are copied in multiples of {granule} bytes"
    return c.RequirementAttr.of(extent, multiple, reason)


def _legalise(program: c.ProgramOp) -> list[Finding]:
    granule = get_target(program.target.data).copy_granule
    found: dict[str, c.RequirementAttr] = {}
    findings: list[Finding] = []
    for kernel in program.kernels:
        if not isinstance(kernel, c.GemmOp):
            continue
        for value, op in tma_tensors(kernel):
            match _check(program, value, op, granule):
                case Finding() as finding:
                    findings.append(finding)
                case c.RequirementAttr() as requirement:
                    known = found.get(requirement.dim.data)
                    if known is None or known.multiple.data < requirement.multiple.data:
                        found[requirement.dim.data] = requirement
                case None:
                    continue
    if found:
        program.requirements = ArrayAttr(list(found.values()))
    return findings


class LegalizeTarget(Pass):
    """Derive what the caller must promise about dims, and refuse extents that break it already."""

    name = "legalize-target"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        findings: list[Finding] = []
        for program in op.body.block.ops:
            if isinstance(program, c.ProgramOp):
                findings.extend(_legalise(program))
        if findings:
            raise PassError(findings)
