"""Derive which extents must be multiples of a copy's width: promises about dims, or errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Operation, SSAValue

from mucc.dialects.cutlass import ops as c
from mucc.dialects.cutlass.views import source_of
from mucc.dialects.mu.schedule_attributes import Mainloop
from mucc.dialects.mu.types import TensorType, dtype_bits
from mucc.dialects.promises import promised_multiple
from mucc.dialects.rewriting import Finding
from mucc.kernels.gemm.description import config_of, problem_of
from mucc.kernels.gemm.granules import fixed_step, held, may_be_wide, unit_axis
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.scheduling import gemm_target, multistage
from mucc.kernels.gemm.settings import settings_in
from mucc.kernels.lowering.reach import multiple_of


def _name(program: c.ProgramOp, value: SSAValue) -> str:
    base = source_of(value)
    for arg, name in zip(program.body.block.args, program.arg_names, strict=True):
        if arg is base:
            return f"'{name.data}'"
    return "an intermediate"


def _check(
    program: c.ProgramOp, gemm: GemmOp, value: SSAValue, op: Operation, granule: int
) -> c.RequirementAttr | Finding | None:
    """Return the requirement that rows of a tensor are whole granules, or a finding if they are not."""
    type = value.type
    assert isinstance(type, TensorType)
    unit = unit_axis(gemm, value)
    extent = type.dims[unit]
    if type.layout.padding > 1:
        return None
    bits = dtype_bits(type.element_type)
    multiple = multiple_of(type, granule)
    name = _name(program, value)
    if (step := fixed_step(type)) % multiple:
        help = f"declare strides that are multiples of {multiple}, or leave them free: `_`"
        return _unaligned(program, gemm, op, name, f"lie {step} elements apart", multiple, help)
    if isinstance(extent, int):
        if extent % multiple == 0:
            return None
        padded = -(-extent // multiple) * multiple
        size_text = f"have {extent} {type.dtype} elements, {extent * bits // 8} bytes"
        return _unaligned(program, gemm, op, name, size_text, multiple, f"pad the extent to {padded}")
    promises = program.promises.data if program.promises else None
    if not may_be_wide(program, value.type, unit):
        size_text = f"are never a multiple of {multiple} {type.dtype} elements, as is promised of {extent}"
        return _unaligned(program, gemm, op, name, size_text, multiple, "promise otherwise")
    if promised_multiple(promises, program.dim_names, extent) % multiple == 0:
        return None
    what = "stored halves of rows" if type.is_sparse else "rows"
    reason = f"{what} of {name} are copied in multiples of {granule} bytes"
    return c.RequirementAttr.of(extent, multiple, reason)


def _unaligned(
    program: c.ProgramOp, gemm: GemmOp, op: Operation, name: str, what: str, multiple: int, help: str
) -> Finding:
    """Rows that the mainloop cannot copy."""
    granule = gemm_target(program.target.data).copy_granule
    return Finding(
        code="MU3101",
        message=f"rows of {name} {what}, but TMA copies whole multiples of {granule} bytes",
        location=op.location,
        kernel=program.sym_name.data,
        stage=gemm.stage.data,
        setting="mainloop",
        notes=(f"rows must be a multiple of {multiple} elements long, and as far apart",),
        helps=(help,),
        fix=Mainloop.MULTISTAGE.value if multistage.can(problem_of(gemm)) else None,
        settings=settings_in(gemm),
    )


def _copies(program: c.ProgramOp, gemm: GemmOp) -> Mapping[str, int]:
    """Operands that threads of a kernel copy, and by how many bytes."""
    if gemm.mainloop is None or gemm.mainloop.data is not Mainloop.CPASYNC:
        return {}
    return gemm_target(program.target.data).copies(config_of(gemm))


def requirements(program: c.ProgramOp, gemm: GemmOp) -> Iterator[c.RequirementAttr | Finding]:
    """Set the granules by which the kernel accesses its matrices; what that demands of their rows."""
    granule = gemm_target(program.target.data).copy_granule
    mainloop = gemm.mainloop.data if gemm.mainloop is not None else None
    if mainloop is Mainloop.SKINNY:
        return  # it looks at the addresses of each call
    if mainloop is Mainloop.MULTISTAGE:
        gemm.granules = DenseArrayBase.from_list(i64, [held(gemm, v) for v, _ in gemm.matrices])
        return
    copies = _copies(program, gemm)
    if any(size < granule for size in copies.values()):
        sizes = [copies.get(name, granule) for name in ("a", "b")]
        sizes += [granule] * (len(list(gemm.matrices)) - len(sizes))
        gemm.granules = DenseArrayBase.from_list(i64, sizes)
    narrow = [v for name, v in zip("ab", gemm.read, strict=False) if copies.get(name, granule) < granule]
    for value, op in gemm.matrices:
        if value not in narrow and (found := _check(program, gemm, value, op, granule)) is not None:
            yield found
