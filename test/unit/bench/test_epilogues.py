"""The programs that splicing is proved on: what they cover, and what is said of them."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from bench.epilogues import EPILOGUES, FAMILIES, Epilogue, write
from mucc.compiler.driver import Compilation, compile_text
from mucc.diagnostics import Source
from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.mu import ops
from mucc.frontend.functions import FUNCTIONS
from mucc.kernels.gemm.op import GemmOp
from mucc.library.signature import Manifest

MATH = Path(__file__).parents[3] / "mucc" / "support" / "include" / "mucc" / "math.cuh"
ALL = pytest.mark.parametrize("epilogue", EPILOGUES, ids=lambda e: e.name)


@cache
def compiled(epilogue: Epilogue) -> Compilation:
    return compile_text(Source(f"{epilogue.name}.mcu", epilogue.text))


def gemms(epilogue: Epilogue) -> list[GemmOp]:
    programs = [op for op in compiled(epilogue).cutlass.body.block.ops if isinstance(op, ProgramOp)]
    return [kernel for program in programs for kernel in program.kernels if isinstance(kernel, GemmOp)]


def skeleton(epilogue: Epilogue) -> str:
    """A text of everything in a program's kernel but what its bodies compute."""
    (gemm,) = gemms(epilogue)
    settings = sorted((k, str(v)) for k, v in gemm.properties.items())
    lines = [str(settings), str([o.type for o in gemm.operands])]
    numbers: dict[object, int] = {}
    for op in gemm.regions[0].block.ops:
        operands = [numbers.get(o, str(o.type)) for o in op.operands]
        lines.append(f"{op.name} {operands} {sorted((k, str(v)) for k, v in op.properties.items())}")
        for result in op.results:
            numbers[result] = len(numbers)
    return "\n".join(lines)


@cache
def library_functions() -> frozenset[str]:
    """The functions in math.cuh that call CUDA's device library, directly or through each other."""
    text = MATH.read_text(encoding="utf-8").split("// ---- functions of the language", 1)[1]
    text = re.sub("//.*", "", text)
    calls: dict[str, set[str]] = defaultdict(set)
    for definition in text.split("MUCC_DEVICE float ")[1:]:
        name, _, body = definition.partition("(")
        calls[name] |= {m[0] for m in re.finditer(r"(?:::)?\b\w+(?=\()", body)}
    found = {name for name, called in calls.items() if any(re.fullmatch(r"::\w+f", c) for c in called)}
    while more := {name for name, called in calls.items() if called & found} - found:
        found |= more
    return frozenset(found)


@ALL
def test_library_calls_are_marked(epilogue: Epilogue):
    text = compiled(epilogue).emit("cu")
    called = set(re.findall(r"mucc::(\w+)\(", text))
    direct = re.search(r"\b(sinf|cosf|tanf|atan2f|fmodf)\(", text)
    assert epilogue.has_library_calls == bool(direct or called & library_functions())


@ALL
def test_results_are_finite_and_vary(epilogue: Epilogue):
    info = Manifest.parse(compiled(epilogue).manifest).kernels[0]
    dims, rng = {"M": 9, "N": 24, "K": 16}, np.random.default_rng()
    inputs = [
        0.75 if a.role == "scalar" else rng.standard_normal(a.extents(dims)) * (0.25 if a.name == "w" else 1)
        for a in info.inputs
    ]
    for out, arg in zip(compiled(epilogue).interpret(epilogue.name, inputs), info.outputs, strict=True):
        assert out.shape == arg.extents(dims) and np.isfinite(out).all()
        assert out.size == 1 or out.std() > 0.005


def test_there_are_enough_under_names_of_their_own():
    names = [e.name for e in EPILOGUES]
    assert len(names) >= 36
    assert len(set(names)) == len(names)
    assert {e.family for e in EPILOGUES} == set(FAMILIES)


def test_every_elementwise_function_of_the_language_occurs():
    of_tensors = {f for file in ops.FILES for f in ops.functions(file)}
    elementwise = {
        name for name, overloads in FUNCTIONS.items() if any(f not in of_tensors for f in overloads)
    }
    used = {m[1] for e in EPILOGUES for m in re.finditer(r"\b(\w+)\(", e.text)}
    others = {
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "bitwise_not",
        "left_shift",
        "right_shift",
    }  # of s32
    assert elementwise - others <= used


def test_every_dtype_is_stored():
    stored = {a.dtype for e in EPILOGUES for a in Manifest.parse(compiled(e).manifest).kernels[0].outputs}
    assert stored == {"bf16", "f16", "f32"}


def test_programs_of_a_family_share_a_skeleton_and_families_do_not():
    skeletons: dict[str, set[str]] = defaultdict(set)
    for epilogue in EPILOGUES:
        skeletons[skeleton(epilogue)].add(epilogue.family)
    assert len(skeletons) == len(FAMILIES)
    assert all(len(families) == 1 for families in skeletons.values())


def test_what_calls_the_library_is_read_off_the_header():
    assert {"exp", "log", "pow", "tanh", "erf", "expm1", "log1p"} == library_functions()


def test_sums_are_taken_of_whole_numbers():
    for epilogue in EPILOGUES:
        assert epilogue.whole_numbers == ("sum(" in epilogue.text), epilogue.name


def test_programs_are_written_as_files(tmp_path: Path):
    paths = write(tmp_path / "new", ["silu", "relu"])
    assert [p.name for p in paths] == ["relu.mcu", "silu.mcu"]
    assert "kernel silu[" in paths[1].read_text(encoding="utf-8")
    assert len(write(tmp_path)) == len(EPILOGUES)
    with pytest.raises(SystemExit, match="no epilogue nothing"):
        write(tmp_path, ["nothing"])
