"""The device kernels of a compiled program, with the tensors and the bytes that each moves, and its bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from mucc.analysis.bound import Bound, Rates
from mucc.analysis.counts import operations
from mucc.compiler.fusion_traffic import tensors_of
from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.mu.entry import EntryOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.kernels.registry import kind_of
from mucc.kernels.traffic import Traffic
from mucc.library.signature import evaluate


class KernelLaunch(NamedTuple):
    """A device kernel of a program, in order of launches."""

    name: str
    kind: str
    reads: Mapping[SSAValue, Traffic]
    """The tensors that it reads, arguments or workspace, with the bytes of one pass over each."""
    writes: Mapping[SSAValue, Traffic]
    bound: Bound | None
    """The least time on a card at the given sizes; None where a dim has no size."""

    @property
    def bytes_read(self) -> Traffic:
        return Traffic.sum(self.reads.values())

    @property
    def bytes_written(self) -> Traffic:
        return Traffic.sum(self.writes.values())


def launches_of(
    stages: ModuleOp, program: ProgramOp, sizes: Mapping[str, int], rates: Rates
) -> list[KernelLaunch]:
    """Return the device kernels of a program, bounded for sizes of its open dims.

    `stages` is the module that the program was lowered from, at the level of stages.
    """
    entries = (op for op in stages.body.block.ops if isinstance(op, EntryOp))
    entry = next(e for e in entries if e.sym_name.data == program.kernel_name)
    named = {op.stage_name.data: op for op in entry.body.block.ops if isinstance(op, StageOp)}
    dims = {**entry.bound_dims, **{n: v for n, v in sizes.items() if n in entry.dim_names}}
    found: list[KernelLaunch] = []
    for kernel in program.kernels:
        name, (reads, writes) = kernel.stage.data, tensors_of(kernel)
        bound = None
        if dims.keys() >= set(entry.dim_names):
            body = named[name].body.block.ops if name in named else ()
            counts = {unit: evaluate(terms, dims) for unit, terms in operations(body).items()}
            moved = Traffic.sum((*reads.values(), *writes.values())).at(dims)
            bound = rates.bound(counts, round(moved))
        found.append(KernelLaunch(name, kind_of(kernel).name, reads, writes, bound))
    return found
