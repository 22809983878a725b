"""Registry of the kinds of device kernels: a new kind is a folder of `mucc/kernels` and a line here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.cutlass.ops import DeviceKernelOp, ProgramOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.kernels.interface import Kind

KINDS: dict[str, str] = {
    "attention": "mucc.kernels.attention.kind:AttentionKind",
    "attention_backward": "mucc.kernels.attention_backward.kind:AttentionBackwardKind",
    "conv": "mucc.kernels.conv.kind:ConvKind",
    "gemm": "mucc.kernels.gemm.kind:GemmKind",
    "map": "mucc.kernels.map.kind:MapKind",
    "normalize": "mucc.kernels.normalize.kind:NormalizeKind",
    "pool": "mucc.kernels.pool.kind:PoolKind",
    "reduce": "mucc.kernels.reduce.kind:ReduceKind",
    "scan": "mucc.kernels.scan.kind:ScanKind",
    "sort": "mucc.kernels.sort.kind:SortKind",
}
"""By name, the module and class of a kind."""


@cache
def kinds() -> tuple[Kind[Any], ...]:
    """Return all kinds, in the order of the table."""
    found: list[Kind[Any]] = []
    for place in KINDS.values():
        module, _, name = place.partition(":")
        found.append(getattr(import_module(module), name)())
    return tuple(found)


@cache
def _by_op() -> dict[type[DeviceKernelOp], Kind[Any]]:
    return {kind.op: kind for kind in kinds()}


def kind_of(op: DeviceKernelOp) -> Kind[Any]:
    """Return the kind of a device kernel."""
    return _by_op()[type(op)]


def claimant(anchor: AnchorOp | None, target: str | None = None) -> Kind[Any] | None:
    """Return the first kind that claims an operation for a target, or for any; None if no kind does."""
    return next((kind for kind in kinds() if kind.claims(anchor, target)), None)


def kind_of_stage(stage: StageOp, target: str) -> Kind[Any]:
    """Return the kind of kernel that a stage becomes. Raises ValueError if no kind claims its anchor."""
    if (kind := claimant(stage.anchor, target)) is None:
        raise ValueError(f"no kind of kernel claims a {stage.kind.data} stage on {target}")
    return kind


def kernels_of(module: ModuleOp) -> Iterator[tuple[ProgramOp, DeviceKernelOp]]:
    """Every device kernel of a module, with the program that launches it."""
    for program in module.body.block.ops:
        if isinstance(program, ProgramOp):
            for kernel in program.kernels:
                yield program, kernel
