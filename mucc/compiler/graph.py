"""`--emit=graph`: device kernels and the tensors between them, in the DOT language of Graphviz."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, SSAValue

from mucc.analysis.bound import Rates
from mucc.compiler.launches import KernelLaunch, launches_of
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.dialects.cutlass.ops import ProgramOp
from mucc.frontend.context import type_text
from mucc.library.entries import guards_text
from mucc.target import get_target
from mucc.target.facts import Device

SECONDS = 60.0
"""The time limit of Graphviz for a drawing."""


def graph(stages: ModuleOp, programs: Sequence[ProgramOp], target: str, sizes: Mapping[str, int]) -> str:
    """Describe the device kernels of programs, and the tensors between them, as a directed graph.

    Boxes are kernels in order of launches, with their kind, the bytes that they read and write and, where all
    dims have a size, the least time on the first card of the target. Ellipses are parameters and results,
    dashed ones are values in the workspace. Edges are labelled with bytes.
    """
    facts = get_target(target).facts
    device = facts.devices[0]
    rates = Rates(device, facts.multiprocessor)
    lines = ["digraph mucc {", '  node [fontname="Helvetica", fontsize=11];']
    lines.append('  edge [fontname="Helvetica", fontsize=9];')
    for number, program in enumerate(programs):
        values = {**program.bound_dims, **sizes}
        launches = launches_of(stages, program, values, rates)
        calls = f" for {guards_text(program.boxes)}" if program.entry_of is not None else ""
        title = f"{program.kernel_name}{calls}"
        lines += [
            f"  subgraph cluster_{number} {{",
            f"    label={_quoted(f'{title}: {_times(launches, device)}')};",
            *(f"    {line}" for line in _drawn(program, launches, values, f"p{number}")),
            "  }",
        ]
    return "\n".join([*lines, "}"]) + "\n"


def _times(launches: Sequence[KernelLaunch], device: Device) -> str:
    """Sum up launches, and their bounds where these are known."""
    count = f"{len(launches)} launch{'' if len(launches) == 1 else 'es'}"
    bounds = [launch.bound.seconds for launch in launches if launch.bound is not None]
    return f"{count}, at least {_us(sum(bounds))} on {device.name}" if len(bounds) == len(launches) else count


def _drawn(
    program: ProgramOp, launches: Sequence[KernelLaunch], sizes: Mapping[str, int], prefix: str
) -> Iterator[str]:
    """Yield the nodes and edges of a program; the names of its nodes begin with `prefix`."""
    moved = [value for launch in launches for value in (*launch.reads, *launch.writes)]
    names = {value: f"{prefix}_t{i}" for i, value in enumerate(dict.fromkeys(moved))}
    for value, name in names.items():
        yield f"{name} [{_tensor(program, value)}];"
    for i, launch in enumerate(launches):
        kernel = f"{prefix}_k{i}"
        label = _quoted(*_kernel(launch, sizes))
        yield f'{kernel} [shape=box, style=filled, fillcolor="#e8f0fe", label={label}];'
        for value, traffic in launch.reads.items():
            yield f"{names[value]} -> {kernel} [label={_quoted(traffic.text(sizes))}];"
        for value, traffic in launch.writes.items():
            yield f"{kernel} -> {names[value]} [label={_quoted(traffic.text(sizes))}];"


def _tensor(program: ProgramOp, value: SSAValue) -> str:
    """Return the attributes of the node of a tensor in memory."""
    type = type_text(value.type)
    if not isinstance(value, BlockArgument):
        return f"shape=ellipse, style=dashed, label={_quoted('workspace', type)}"
    return f"shape=ellipse, label={_quoted(program.arg_names.data[value.index].data, type)}"


def _kernel(launch: KernelLaunch, sizes: Mapping[str, int]) -> list[str]:
    """Return the lines of a kernel's label."""
    lines = [f"{launch.name} ({launch.kind})"]
    lines.append(f"reads {launch.bytes_read.text(sizes)}, writes {launch.bytes_written.text(sizes)}")
    if launch.bound is not None:
        lines.append(f"at least {_us(launch.bound.seconds)} ({launch.bound.binding})")
    return lines


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} µs"


def _quoted(*lines: str) -> str:
    """Return a string of DOT."""
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'


def draw(text: str) -> bytes:
    """Draw a graph of DOT as SVG with Graphviz. Raises MU5410 where that is not installed, or fails."""
    if (program := shutil.which("dot")) is None:
        helps = ("install graphviz, or write DOT: -o NAME.dot",)
        raise DiagnosticError(Diagnostic("MU5410", "an SVG of a graph needs Graphviz's `dot`", helps=helps))
    try:
        found = subprocess.run(
            [program, "-Tsvg"], input=text.encode(), capture_output=True, timeout=SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as problem:
        helps = ("write DOT to look at it in another way: -o NAME.dot",)
        raise DiagnosticError(Diagnostic("MU5410", f"`dot` failed: {problem}", helps=helps)) from problem
    return found.stdout
