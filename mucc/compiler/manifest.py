"""Build the manifest: the JSON description of a library that is embedded in the `.so`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType

from xdsl.dialects.builtin import ModuleOp

from mucc.analysis.counts import compulsory_bytes, flops
from mucc.compiler.host import argument_alignments, derived_conditions
from mucc.dialects.cutlass import ops as c
from mucc.dialects.mu.entry import EntryOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.types import LayoutAttr, TensorType, dtype_name
from mucc.dialects.promises import constraint_text
from mucc.kernels.indices import index_uses, meant_uses
from mucc.kernels.registry import kind_of
from mucc.library.dims import DECLARED
from mucc.library.manifest_json import ArgJson, IndexJson, KernelJson, ManifestJson, PromiseJson
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


def _args(kernel: KernelOp, program: c.ProgramOp) -> list[ArgJson]:
    alignments = argument_alignments(program)
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


def promises(program: EntryOp) -> list[PromiseJson]:
    """List the conditions that callers must keep: promises of the source, and requirements of the kernels."""
    declared = program.promises.data.constraints if program.promises else ()
    return [
        *({"text": constraint_text(p, program.dim_names), "why": DECLARED} for p in declared),
        *({"text": text, "why": why} for text, why in derived_conditions(program)),
    ]


def build_manifest(mu: ModuleOp, lowered: ModuleOp, typical: Mapping[str, int] = _NONE) -> ManifestJson:
    """Build the manifest of a module from its `mu` IR (counts) and its `cutlass` IR (everything else).

    `typical` are the values of open dims for which schedules were chosen.
    """
    kernels = {op.sym_name.data: op for op in mu.body.block.ops if isinstance(op, KernelOp)}
    programs = [op for op in lowered.body.block.ops if isinstance(op, c.ProgramOp)]
    entries: list[KernelJson] = []
    for program in programs:
        name, bound = program.sym_name.data, program.bound_dims
        hints = {d: typical[d] for d in program.dim_names if d in typical and d not in bound}
        entry: KernelJson = {
            "name": name,
            "symbol": f"mucc_{name}",
            "ffi": name,
            "dims": [{"name": d, "value": bound.get(d)} for d in program.dim_names],
            "each": True,
            "args": _args(kernels[name], program),
            "promises": promises(program),
            "typical": hints,
            "stages": [kind_of(k).manifest(k) for k in program.kernels],
            "workspace": bool(program.slots) or any(kind_of(k).needs_scratch(k) for k in program.kernels),
            "sol": {"flops": flops(kernels[name]), "bytes": compulsory_bytes(kernels[name])},
        }
        if not program.is_each:
            del entry["each"]
        if not hints:
            del entry["typical"]
        entries.append(entry)
    return {
        "abi": ABI_VERSION,
        "mucc": __version__,
        "target": programs[0].target.data if programs else None,
        "program_hash": hashlib.sha256(str(mu).encode()).hexdigest(),
        "kernels": entries,
    }
