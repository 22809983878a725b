"""Check `--dims` and `--kernel` of `mucc run` against a kernel's signature."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from mucc.diagnostics.core import did_you_mean
from mucc.library import extents
from mucc.library.dims import broken_promise, example, fault, holds, no_kernel
from mucc.library.signature import KernelInfo, Manifest


def complete_dims(info: KernelInfo, given: Mapping[str, int]) -> dict[str, int]:
    """Return a value for every dim of the kernel. Raises MU6051 (missing, unknown), MU6052 (bound)."""
    for name in given:
        if name not in info.dims:
            meant = did_you_mean(name, info.dims) or did_you_mean(name.upper(), info.dims)
            helps = (
                (f"did you mean '{meant}'?",)
                if meant
                else (f"its dims are {', '.join(info.dims) or 'none'}",)
            )
            raise fault("MU6051", f"{info.name} has no dim '{name}'", *helps)
    if missing := [n for n, v in info.dims.items() if v is None and n not in given]:
        named = [n for n, v in info.dims.items() if v is None and n in given]
        raise fault(
            "MU6051",
            f"--dims lacks {', '.join(missing)} of {info.signature}",
            example(missing, {n: given[n] for n in named}, lambda dims: _may_hold(info, dims)),
        )
    for name, value in info.dims.items():
        if value is not None and given.get(name, value) != value:
            raise fault("MU6052", f"dim {name} is {value} in the source, --dims says {given[name]}")
    return {n: given[n] if v is None else v for n, v in info.dims.items()}


def _may_hold(info: KernelInfo, dims: Mapping[str, int]) -> bool:
    """Whether no promise of the kernel is broken that speaks of these dims alone, or of bound ones."""
    known = {**{n: v for n, v in info.dims.items() if v is not None}, **dims}
    if not all(holds(text, known) for text, _ in info.promises):
        return False
    return len(known) < len(info.dims) or not any(_runs_out(info, known))


def _runs_out(info: KernelInfo, dims: Mapping[str, int]) -> Iterator[tuple[str, int, int]]:
    """Return an index argument that must name more distinct rows than exist: its name, and both counts."""
    for arg in info.inputs:
        count = math.prod(arg.extents(dims))
        rows = min((extents.value(i.rows, dims) for i in arg.indices if i.once), default=count)
        if count > rows:
            yield arg.name, count, rows


def check_promises(info: KernelInfo, dims: Mapping[str, int]) -> None:
    """Raise MU6052 for the first promise that the dims break, or if `scatter` runs out of rows."""
    for text, why in info.promises:
        if not holds(text, dims):
            raise broken_promise(info.name, text, why, dims)
    for name, count, rows in _runs_out(info, dims):
        message = f"'{name}' of {info.name} names {count} rows, each once, but there are {rows}"
        raise fault("MU6052", message, "choose dims with as many rows as are named")


def choose_kernel(manifest: Manifest, name: str | None) -> KernelInfo:
    """Return the kernel to run. Raises MU6053 where no name chooses one, MU5406 for an unknown name."""
    kernels = {k.name: k for k in manifest.kernels}
    listed = ", ".join(kernels)
    if name is None:
        if len(kernels) != 1:
            raise fault(
                "MU6053", f"the file holds {len(kernels)} kernels: {listed}", "choose one with --kernel NAME"
            )
        return manifest.kernels[0]
    if name not in kernels:
        raise no_kernel(name, kernels)
    return kernels[name]
