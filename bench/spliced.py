"""Compare machine code of attention and convolutions with spliced functions and of kernels compiled whole.

    python -m bench.spliced [--only PATTERN]

No GPU is needed, but cuobjdump. For each program NVRTC compiles its kernels whole, and with a marker in place
of functions, which are compiled alone and spliced in; ptxas assembles both. A line says in how many
instructions, registers included, they differ (`differ`), how many instructions of a kind one has more than
the other (`kinds`), and registers and bytes of spills of both. Functions with branches are compared, too,
though builds compile them whole. The exit status is 1 where kinds, registers or spills of others differ.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.common import cpu_label, run_main, versions, write_result
from bench.compile import FUNCTIONS
from bench.sass import compare
from mucc.build.toolchain import nvrtc
from mucc.build.toolchain.assembly import INCLUDES
from mucc.build.toolchain.discover import find_toolchain
from mucc.build.toolchain.flags import SPLIT
from mucc.build.toolchain.machine_code import Function, disassembled, find_cuobjdump
from mucc.build.toolchain.splice import read_bodies, splice
from mucc.codegen.kernel_code import ENTRY
from mucc.compiler.driver import Options, compile_text
from mucc.compiler.emit import Image
from mucc.diagnostics.core import Source

TARGET = "sm_90a"

KERNEL = """\
kernel attend[B, H, S](q: {q}, k: {q}, v: {q}{more}) -> {q} {{
    y = q @ permute(k, (0, 1, 3, 2)) * 0.088
    return {result}
}}
"""
SOFTMAX = "cast(softmax({value}, axis=-1), {dtype}) @ v"
CAUSAL = "where(iota((S, S), axis=1) <= iota((S, S), axis=0), {value}, -inf)"
WINDOW = CAUSAL.replace(", {value}", " and iota((S, S), axis=0) - iota((S, S), axis=1) < 1024, {value}")
CONVOLUTION = """\
kernel layer{dims}(x: {dtype}[{x}], w: {dtype}[{w}], b: f32[{o}]{more}) -> {dtype}[{result}] {{
    y = conv({operands}) + b[:, None, None]
    return {stored}
}}
"""
LAST = ("permute(x, (0, 3, 1, 2)), permute(w, (0, 3, 1, 2))", "permute({}, (0, 2, 3, 1))")
FIRST = ("x, w", "{}")
DOCUMENTS = "where(g[:, None, :, None] == g[:, None, None, :], {value}, -inf)"


def attentions() -> Iterator[tuple[str, str]]:
    """Yield names and texts of programs: forms of attention, and functions of one form."""

    def text(value: str, dtype: str = "bf16", shape: str = "B, H, S, 128", mask: str = "{value}") -> str:
        result = SOFTMAX.format(value=mask.format(value=value), dtype=dtype)
        more = ", g: s32[B, S]" if "g[" in mask else ""
        return KERNEL.format(q=f"{dtype}[{shape}]", more=more, result=result)

    known = "4, 16, 4096, 128"
    for function in FUNCTIONS:
        yield function, text(f"{function}(y) * 1.25", shape=known).replace("[B, H, S]", "", 1)
    value = "tanh(y / 50) * 50"
    for name, form in (
        ("open", text(value)),
        ("causal", text(value, mask=CAUSAL)),
        ("window", text(value, mask=WINDOW)),
        ("documents", text(value, mask=DOCUMENTS)),
        ("64 elements", text(value, shape="B, H, S, 64")),
        ("256 elements", text(value, shape="B, H, S, 256")),
        ("f32", text(value, "f32", "B, H, S, 64")),
        ("e4m3", text(value, "e4m3").replace("-> e4m3", "-> f32")),
        ("no softmax", KERNEL.format(q="bf16[B, H, S, 64]", more="", result="sigmoid(y) @ v")),
    ):
        yield f"soft cap, {name}", form


def convolutions() -> Iterator[tuple[str, str]]:
    """Yield names and texts of programs: functions behind one convolution, and one function behind others."""

    def text(
        value: str,
        x: str = "32, 28, 28, 128",
        w: str = "128, 3, 3, 128",
        o: int = 128,
        result: str = "32, 28, 28, 128",
        layout: tuple[str, str] = LAST,
        settings: str = ", pad=1",
        dtype: str = "bf16",
        more: str = "",
    ) -> str:
        operands, stored = layout
        return CONVOLUTION.format(
            dims="[B]" if x.startswith("B") else "",
            dtype=dtype,
            x=x,
            w=w,
            o=o,
            more=more,
            result=result,
            operands=operands + settings,
            stored=stored.format(value),
        )

    for function in FUNCTIONS:
        yield f"conv, {function}", text(f"{function}(y) * 1.25")
    value = "silu(y) * 1.25"
    yield "conv, open batch", text(value, "B, 28, 28, 128", result="B, 28, 28, 128")
    yield (
        "conv, residual",
        text(f"{value} + permute(r, (0, 3, 1, 2))", more=", r: bf16[32, 28, 28, 128]"),
    )
    yield "conv, few positions", text(value, "4, 7, 7, 512", "512, 3, 3, 512", 512, "4, 7, 7, 512")
    depthwise = ("32, 56, 56, 96", "96, 7, 7, 1", 96, "32, 56, 56, 96")
    yield "conv, depthwise", text(value, *depthwise, settings=", pad=3, groups=96")
    planes = ("8, 64, 56, 56", "64, 64, 3, 3", 64, "8, 64, 56, 56", FIRST)
    yield "conv, f32 planes", text(value, *planes, dtype="f32")
    yield "conv, bf16 planes", text(value, *planes)
    image = ("8, 3, 224, 224", "64, 3, 7, 7", 64, "8, 64, 112, 112", FIRST)
    yield "conv, image", text(value, *image, settings=", pad=3, stride=2", dtype="f32")


def assembled(ptx: str, cuobjdump: str) -> tuple[list[Function], str]:
    """Return the machine code that ptxas makes of PTX, and its log."""
    with tempfile.TemporaryDirectory(prefix="mucc-") as folder:
        source, cubin = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        source.write_text(ptx)
        ptxas = find_toolchain().tools()["ptxas"]
        command = [ptxas, f"-arch={TARGET}", "-m64", "-v", SPLIT, str(source), "-o", str(cubin)]
        log = subprocess.run(command, check=True, capture_output=True, text=True).stderr
        return disassembled(cubin, cuobjdump), log


def kinds_of(function: Function) -> Counter[str]:
    """Count the instructions of each kind, without predicates, registers and order."""
    return Counter(text.split()[text.startswith("@")] for text in function.instructions)


def differing_kinds(one: Function, other: Function) -> int:
    """Count the instructions of a kind of which one function has more than the other."""
    a, b = kinds_of(one), kinds_of(other)
    return (a - b).total() + (b - a).total()


def resources(log: str) -> tuple[int, int]:
    """Return the most registers of a kernel, and the bytes of spills of all."""
    registers = max(map(int, re.findall(r"Used (\d+) registers", log)))
    return registers, sum(map(int, re.findall(r"(\d+) bytes spill (?:stores|loads)", log)))


def measured(name: str, image: Image, cuobjdump: str) -> dict[str, object]:
    """Compare the two builds of an image."""
    assert image.divided is not None, f"{name} has no function of its own"

    def compiled(source: str, *, has_kernels: bool = True) -> str:
        return nvrtc.compile_ptx(source, target=TARGET, include=INCLUDES, has_kernels=has_kernels).ptx

    bodies = read_bodies(compiled(image.divided.bodies, has_kernels=False))
    spliced = splice(compiled(image.divided.skeleton).replace(ENTRY, image.entry), bodies)
    whole, whole_log = assembled(compiled(image.source), cuobjdump)
    built, built_log = assembled(spliced, cuobjdump)
    by_name = {f.name: f for f in built}
    differ = sum(compare([f], [by_name[f.name]]).instructions for f in whole)
    return {
        "name": name,
        "branches": any(body.has_branches for body in bodies.values()),
        "kernels": len(whole),
        "instructions": sum(len(f.instructions) for f in whole),
        "spliced_instructions": sum(len(f.instructions) for f in built),
        "differ": differ,
        "kinds": sum(differing_kinds(f, by_name[f.name]) for f in whole),
        "registers": resources(whole_log)[0],
        "spliced_registers": resources(built_log)[0],
        "spilled": resources(whole_log)[1],
        "spliced_spilled": resources(built_log)[1],
    }


def is_alike(row: Mapping[str, object]) -> bool:
    """Whether both builds have the same kinds of instructions, registers and spills."""
    return (
        row["kinds"] == 0
        and row["registers"] == row["spliced_registers"]
        and row["spilled"] == row["spliced_spilled"]
    )


def main() -> int:
    """Compare, print a line for each program, write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="a regular expression for names of programs")
    pattern = parser.parse_args().only
    if (cuobjdump := find_cuobjdump()) is None:
        parser.exit(1, f"{parser.prog}: there is no cuobjdump\n")
    rows: list[dict[str, object]] = []
    for name, text in (*attentions(), *convolutions()):
        if re.search(pattern, name):
            images = compile_text(Source("k.mcu", text), Options(target=TARGET)).parts().images
            for image in images:
                if image.divided is None and len(images) > 1:
                    continue  # a copy of an operand
                rows.append(measured(name, image, cuobjdump))
                print(*(f"{key} {value}" for key, value in rows[-1].items()), sep=", ", flush=True)
    if not rows:
        raise SystemExit(f"no program matches '{pattern}'")
    plain = [row for row in rows if not row["branches"]]
    summary = {
        "spliced.without_branches": float(len(plain)),
        "spliced.same_code": float(sum(row["differ"] == 0 for row in plain)),
        "spliced.same_kinds": float(sum(map(is_alike, plain))),
    }
    if not pattern:
        tools = versions("nvidia-cuda-nvcc", "nvidia-cuda-nvrtc")
        module = "bench.spliced"
        label = cpu_label()
        print(write_result(label, "spliced", rows, summary, extra_versions=tools, module=module))
    return 0 if all(map(is_alike, plain)) else 1


if __name__ == "__main__":
    run_main(main)
