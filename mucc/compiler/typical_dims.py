"""Check typical values of open dims, for which schedules are chosen.

The values influence schedules only: a library accepts every size that its kernels support.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mucc.diagnostics.core import DiagnosticError, did_you_mean
from mucc.library.dims import DECLARED, Size, broken_promise, fault, holds, parse_sizes

if TYPE_CHECKING:
    from mucc.dialects.mu.entry import EntryOp


Given = Mapping[str, int | str] | str | Sequence[str | Mapping[str, int | str]] | None
"""Typical values: a mapping or text such as `M=128,N=4096`, or several of either, for several sizes."""


def sizes_of(dims: Given) -> tuple[Size, ...]:
    """Parse values for one size or several, and ranges such as `M=1..4096`. Raises MU6050 and MU6089."""
    return parse_sizes(_words(dims))


def _words(dims: Given) -> list[str]:
    if dims is None:
        return []
    several = [dims] if isinstance(dims, (Mapping, str)) else dims
    return [
        ",".join(f"{name}={value}" for name, value in one.items()) if isinstance(one, Mapping) else one
        for one in several
    ]


def check_names(kernels: Sequence[EntryOp], dims: Mapping[str, int]) -> None:
    """Raise MU6051 for a dim that no kernel has, MU6052 for a value that contradicts the source."""
    known = {name: kernel.bound_dims.get(name) for kernel in kernels for name in kernel.dim_names}
    for name, value in dims.items():
        if name not in known:
            meant = did_you_mean(name, known) or did_you_mean(name.upper(), known)
            listed = ", ".join(known) or "none"
            helps = (f"did you mean '{meant}'?" if meant else f"the program's dims are {listed}",)
            raise fault("MU6051", f"no kernel has a dim '{name}'", *helps)
        values = {k.bound_dims[name] for k in kernels if name in k.bound_dims}
        open_somewhere = any(name in k.dim_names and name not in k.bound_dims for k in kernels)
        if values and not open_somewhere and value not in values:
            raise fault("MU6052", f"dim {name} is {min(values)} in the source, --dims says {value}")


def check_sizes(kernels: Sequence[EntryOp], sizes: Sequence[Size]) -> None:
    """Raise what `check_names` does for one of the sizes, of the samples of a range if all are wrong."""
    broken: list[DiagnosticError] = []
    for size in sizes:
        try:
            check_names(kernels, size.dims)
        except DiagnosticError as error:
            if not size.is_sample or error.diagnostics[0].code != "MU6052":
                raise
            broken.append(error)
    if broken and len(broken) == len(sizes):
        raise broken[-1]


def check_promises(programs: Sequence[EntryOp], dims: Mapping[str, int]) -> None:
    """Raise MU6052 for the first promise of a lowered kernel that typical values break."""
    from mucc.compiler.manifest import promises

    for program in programs:
        for promise in promises(program):
            if not holds(promise["text"], {**dims, **program.bound_dims}):
                name, why = program.sym_name.data, promise["why"]
                helps = () if why == DECLARED else _other_mainloops(program)
                raise broken_promise(name, promise["text"], why, dims, *helps)


def _other_mainloops(program: EntryOp) -> tuple[str, ...]:
    """Return advice where a pinned mainloop needs rows of whole 16 bytes and another mainloop does not."""
    from mucc.dialects.cutlass.ops import DeviceKernelOp
    from mucc.kernels.registry import kind_of

    kernels = [op for op in program.body.block.ops if isinstance(op, DeviceKernelOp)]
    found = {kind_of(op).taking_any_rows(op) for op in kernels if kind_of(op).has_schedule}
    if len(found) != 1 or (setting := found.pop()) is None:
        return ()
    return (f"or write `{setting}` in the schedule: it takes rows of any length",)
