"""Whether a program is worth an attempt: what `mucc` says of it, and whether its kernels can be called as the
imported ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mucc.agent.core.command import python, run
from mucc.api.json_types import DiagnosticJson, KernelJson, ManifestJson, from_json

SECONDS = 60.0
"""Seconds that the check of one program may take."""

SHOWN = 6
"""The largest number of errors of a program in one message to a model."""

Signature = tuple[Any, ...]
"""A kernel by its name, and the name, role, dtype, shape and layout of each argument and result."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check: `fault` tells a model what is wrong, and is empty for a good program."""

    fault: str
    diagnostics: Sequence[DiagnosticJson] = ()


def check(program: str, imported: str, target: str, *, seconds: float = SECONDS) -> Checked:
    """Compile a program to C++, in a process of its own, and compare its kernels with the imported ones."""
    expected = _examined(imported, target, seconds)
    found = _examine(program, target, seconds)
    if found.fault:
        return Checked(found.fault, found.diagnostics)
    if expected.kernels and (fault := difference(expected.kernels, found.kernels)):
        return Checked(fault)
    return Checked("")


@dataclass(frozen=True, slots=True)
class _Examined:
    kernels: Mapping[str, Signature]
    schedules: str = ""
    fault: str = ""
    diagnostics: Sequence[DiagnosticJson] = ()


def _examine(program: str, target: str, seconds: float) -> _Examined:
    words, env = python("mucc")
    words += ["-", "--emit=manifest", "--target", target, "--diagnostics=json"]
    try:
        ended = run(words, seconds=seconds, given=program, env=env)
    except OSError as error:
        return _Examined({}, fault=f"mucc could not be started: {error.strerror}")
    if ended.stopped:
        return _Examined({}, fault=f"mucc {ended.how} on this program")
    if ended.status == 0:
        manifest = from_json(ManifestJson, json.loads(ended.out))
        return _Examined(signatures(manifest), _schedules(manifest))
    try:
        diagnostics = from_json(list[DiagnosticJson], json.loads(ended.err))
    except ValueError:
        diagnostics = []
    said = told(diagnostics)
    fault = f"mucc rejects the program:\n{said}" if said else f"mucc {ended.how}"
    return _Examined({}, fault=fault, diagnostics=diagnostics)


_examined = lru_cache(maxsize=64)(_examine)


def schedules(program: str, target: str, *, seconds: float = SECONDS) -> str:
    """Return the schedules of a program in short lines, also those that the compiler chose.

    Empty where it does not compile.
    """
    return _examined(program, target, seconds).schedules


def _schedules(manifest: ManifestJson) -> str:
    from mucc.api.schedules import SETTINGS

    lines: list[str] = []
    for kernel in manifest["kernels"]:
        for stage in kernel["stages"]:
            told = ("compute", *SETTINGS)
            settings = ", ".join(f"{name} {stage[name]}" for name in told if stage.get(name))
            lines.append(f"- {kernel['name']}.{stage['name']} ({stage.get('kind')}): {settings}")
    return "\n".join(lines)


def signatures(manifest: ManifestJson) -> dict[str, Signature]:
    """Return the kernels of a manifest; open dims are numbered in order, without names."""
    return {kernel["name"]: _signature(kernel) for kernel in manifest["kernels"]}


def _signature(kernel: KernelJson) -> Signature:
    numbers: dict[str, str] = {}

    def extent(found: Any) -> Any:
        return numbers.setdefault(found, f"d{len(numbers)}") if isinstance(found, str) else found

    return (
        bool(kernel.get("each")),
        *(
            (
                arg["name"],
                arg["role"],
                arg["dtype"],
                tuple(extent(e) for e in arg.get("shape", ())),
                str(arg.get("layout", "")),
            )
            for arg in kernel["args"]
        ),
    )


def difference(expected: Mapping[str, Signature], found: Mapping[str, Signature]) -> str:
    """Return the differences from the imported kernels; empty where there are none."""
    faults = [f"there is no kernel '{name}'" for name in expected if name not in found]
    faults += [f"there must be no kernel '{name}'" for name in found if name not in expected]
    for name, (each, *args) in expected.items():
        if name not in found or found[name] == (each, *args):
            continue
        faults.append(f"kernel {name} must be {_shown(name, args)}\n  but is {_shown(name, found[name][1:])}")
    if not faults:
        return ""
    lines = "\n".join(f"- {fault}" for fault in faults)
    return f"The program calls kernels by name, arguments and results, which must not change:\n{lines}"


def _shown(name: str, args: Sequence[Any]) -> str:
    def one(arg: Any) -> str:
        word, _, dtype, shape, layout = arg
        extents = f"[{', '.join(map(str, shape))}]" if shape else ""
        return f"{word}: {dtype}{extents}{'' if layout in ('row_major', '') else f' {layout}'}"

    inputs = ", ".join(one(a) for a in args if a[1] != "output")
    return f"{name}({inputs}) -> ({', '.join(one(a) for a in args if a[1] == 'output')})"


def told(diagnostics: Sequence[DiagnosticJson], most: int = SHOWN) -> str:
    """Diagnostics as short lines for a model: errors, and warnings where there is no error."""
    errors = [d for d in diagnostics if d.get("severity") == "error"] or list(diagnostics)
    lines: list[str] = []
    for d in errors[:most]:
        span = d.get("span") or {}
        place = ""
        if "line" in span and "column" in span:
            place = f"line {span['line']}, column {span['column']}: "
        lines.append(f"- {d['code']} {place}{d['message']}")
        for word in ("notes", "helps"):
            lines += [f"  {word[:-1]}: {' '.join(str(text).split())}" for text in d.get(word) or ()]
    if len(errors) > most:
        lines.append(f"- and {len(errors) - most} more")
    return "\n".join(lines)
