"""Build the manifest: the JSON description of a library that is embedded in the `.so`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xdsl.dialects.builtin import ModuleOp

from mucc.analysis.counts import compulsory_bytes, flops
from mucc.compiler.host import (
    derived_conditions,
    own_conditions,
    shared_alignments,
    shared_conditions,
)
from mucc.dialects.cutlass import ops as c
from mucc.dialects.mu.entry import EntryOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.types import LayoutAttr, TensorType, dtype_name
from mucc.dialects.promises import constraint_text
from mucc.kernels.indices import index_uses, meant_uses
from mucc.kernels.registry import kind_of
from mucc.library.dims import DECLARED
from mucc.library.manifest_json import ArgJson, EntryJson, IndexJson, KernelJson, ManifestJson, PromiseJson
from mucc.library.signature import ABI_VERSION
from mucc.version import __version__

_NONE: Mapping[str, int] = MappingProxyType({})


def _layout(layout: LayoutAttr) -> str | list[int | None]:
    return list(layout.stride_values) if layout.kind.data == "strides" else layout.kind.data


def _indices(kernel: KernelOp, program: c.ProgramOp) -> dict[int, list[IndexJson]]:
    """Collect the requirements on values of index arguments, by the argument's position."""
    uses = index_uses(program)
    read = {use.argument for use in uses}
    requirements: dict[int, list[IndexJson]] = {}
    for use in (*uses, *(use for use in meant_uses(kernel) if use.argument not in read)):
        entry = IndexJson(kind=use.kind, rows=use.rows, once=use.once)
        if entry not in (known := requirements.setdefault(use.argument, [])):
            known.append(entry)
    return requirements


def _needs_workspace(program: c.ProgramOp) -> bool:
    return bool(program.slots) or any(kind_of(k).needs_scratch(k) for k in program.kernels)


def _args(kernel: KernelOp, program: c.ProgramOp, alignments: Sequence[int]) -> list[ArgJson]:
    indices = _indices(kernel, program)
    args: list[ArgJson] = []
    for i, (value, name) in enumerate(zip(program.body.block.args, program.arg_names, strict=True)):
        role = "input" if i < program.num_inputs.value.data else "output"
        if not isinstance(type := value.type, TensorType):
            args.append({"name": name.data, "role": "scalar", "dtype": dtype_name(type)})
            continue
        arg: ArgJson = {
            "name": name.data,
            "role": role,
            "dtype": type.dtype,
            "shape": list(type.dims),
            "layout": _layout(type.layout),
            "align": alignments[i],
        }
        if i in indices:
            arg["indices"] = indices[i]
        args.append(arg)
    return args


def promises(program: EntryOp, derived: Sequence[tuple[str, str]] | None = None) -> list[PromiseJson]:
    """List the conditions that callers must keep: promises of the source, and `derived` ones of the kernels.

    Without `derived`, all that the program needs.
    """
    needed = derived_conditions(program) if derived is None else derived
    declared = program.promises.data.constraints if program.promises else ()
    return [
        *({"text": constraint_text(p, program.dim_names), "why": DECLARED} for p in declared),
        *({"text": text, "why": why} for text, why in needed),
    ]


def _entries(
    programs: Sequence[c.ProgramOp], sizes: Sequence[Sequence[Mapping[str, int]]]
) -> list[EntryJson]:
    """Describe the entries of a kernel with several schedules, and the `sizes` that each was made for."""
    return [
        {
            "sizes": [dict(size) for size in own],
            "guards": [{r.dim: [r.lower, r.upper] for r in guard} for guard in program.boxes],
            "promises": [{"text": text, "why": why} for text, why in own_conditions(program, programs)],
            "stages": [kind_of(k).manifest(k) for k in program.kernels],
        }
        for program, own in zip(programs, sizes, strict=True)
    ]


def build_manifest(
    mu: ModuleOp,
    lowered: ModuleOp,
    typical: Mapping[str, int] = _NONE,
    sizes: Mapping[str, Sequence[Sequence[Mapping[str, int]]]] = MappingProxyType({}),
) -> ManifestJson:
    """Build the manifest of a module from its `mu` IR (counts) and its `cutlass` IR (everything else).

    `typical` are the values of open dims for which schedules were chosen, and `sizes` those of the entries of
    kernels with several schedules.
    """
    kernels = {op.sym_name.data: op for op in mu.body.block.ops if isinstance(op, KernelOp)}
    programs = [op for op in lowered.body.block.ops if isinstance(op, c.ProgramOp)]
    entries: list[KernelJson] = []
    for program in programs:
        if program.boxes:
            continue  # the last entry of a kernel stands for it
        family = [p for p in programs if p.kernel_name == program.kernel_name]
        name, bound = program.sym_name.data, program.bound_dims
        hints = {d: typical[d] for d in program.dim_names if d in typical and d not in bound}
        entry: KernelJson = {
            "name": name,
            "symbol": f"mucc_{name}",
            "ffi": name,
            "dims": [{"name": d, "value": bound.get(d)} for d in program.dim_names],
            "each": True,
            "args": _args(kernels[name], program, shared_alignments(family)),
            "promises": promises(program, shared_conditions(family)),
            "typical": hints,
            "stages": [kind_of(k).manifest(k) for k in program.kernels],
            "workspace": any(map(_needs_workspace, family)),
            "sol": {"flops": flops(kernels[name]), "bytes": compulsory_bytes(kernels[name])},
        }
        if not program.is_each:
            del entry["each"]
        if not hints:
            del entry["typical"]
        if len(family) > 1:
            entry["entries"] = _entries(family, sizes[name])
        entries.append(entry)
    return {
        "abi": ABI_VERSION,
        "mucc": __version__,
        "target": programs[0].target.data if programs else None,
        "program_hash": hashlib.sha256(str(mu).encode()).hexdigest(),
        "kernels": entries,
    }
