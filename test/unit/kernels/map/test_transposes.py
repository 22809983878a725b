"""Copies and pointwise work that transpose: the axes of their matrices, and the tiles they go by."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from on_host import Program, program_of, run

from bench.accesses import costs
from mucc.build.toolchain import nvrtc
from mucc.codegen.memory import Product
from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.files.package import INCLUDES
from mucc.kernels.map.tiles import turned_tile

TEXT = """\
kernel image[N](x: {0}[N, 3, 33, 37]) -> {0}[N, 33, 37, 3] {{ return permute(x, (0, 2, 3, 1)) }}
kernel planes[N](x: {0}[N, 33, 37, 5]) -> {0}[N, 5, 33, 37] {{ return permute(x, (0, 3, 1, 2)) }}
kernel filter(x: {0}[70, 3, 3, 130]) -> {0}[130, 70, 3, 3] {{ return permute(x, (3, 0, 1, 2)) }}
kernel back(x: {0}[70, 30, 3, 3]) -> {0}[3, 3, 30, 70] {{ return permute(x, (2, 3, 1, 0)) }}
kernel both(x: {0}[9, 5, 70, 66]) -> {0}[66, 5, 9, 70] {{ return permute(x, (3, 1, 0, 2)) }}
kernel some[N](x: {0}[N, 33, 37, 5]) -> {0}[N, 3, 33, 37] {{ return permute(x[:, :, :, 1:4], (0, 3, 1, 2)) }}
kernel part(x: {0}[7, 10, 410]) -> {0}[400, 7, 8] {{ return permute(x[:, 1:9, :400], (2, 0, 1)) }}
"""
MATRICES = {
    "image": "N, 1221, 3",
    "planes": "N, 5, 1221",
    "filter": "130, 630",
    "back": "30, 9, 70",
    "both": "5, 9, 66, 70",
    "some": "N, 3, 1221",
    "part": "7, 400, 8",
}
"""The rows and columns of each transpose, behind the axes around them."""
PLANES = {"image": (3, 3, "true"), "planes": (5, 5, "false"), "some": (3, 5, "false")}
"""The elements of pixels that go by registers, in how many they lie, and whether planes are interleaved."""


def test_sides_of_the_matrix_take_in_the_axes_that_adjoin_them() -> None:
    text = compile_text(Source("k.mcu", TEXT.format("f16"))).emit("cu")
    found = re.findall(r"launch_pack(?:_planes)?\(c, \"out\", codes, op, \{\{(.*)\}\}\)", text)
    assert found == list(MATRICES.values())


def test_few_planes_go_by_registers() -> None:
    _, *texts = compile_text(Source("k.mcu", TEXT.format("f16"))).emit("cu").split("\nnamespace mu::")
    found: dict[str, tuple[int, int, str]] = {}
    for text in texts:
        if match := re.search(r"kPlanes = (\d+), kPitch = (\d+);\n.*kInto = (\w+);", text):
            assert "mucc::pack_planes(" in text
            found[text[: text.index("::")]] = (int(match[1]), int(match[2]), match[3])
    assert found == PLANES


@pytest.mark.skipif(bool(nvrtc.why_unusable("13.0")), reason="needs NVRTC")
@pytest.mark.parametrize("dtype", ["f32", "bf16", "s8"])
@pytest.mark.parametrize(
    ("source", "result", "order"),
    [
        ((8, 3, 224, 224), (8, 224, 224, 3), (0, 2, 3, 1)),
        ((8, 224, 224, 3), (8, 3, 224, 224), (0, 3, 1, 2)),
        ((12, 65536), (65536, 12), (1, 0)),
        ((65536, 12), (12, 65536), (1, 0)),
    ],
)
def test_device_memory_bounds_copies_of_few_planes(
    dtype: str, source: Sequence[int], result: Sequence[int], order: Sequence[int], tmp_path: Path
) -> None:
    text = f"kernel k(x: {dtype}{[*source]}) -> {dtype}{[*result]} {{ return permute(x, {order}) }}"
    (found,), dram = costs(text, {}, 4, tmp_path)
    assert max(found.issue, found.l1, found.shared, found.l2) < 0.7 * dram


@pytest.mark.parametrize(
    ("rows", "columns", "size", "tile"),
    [
        (1221, 3, 2, (512, 8)),
        (3, 1221, 2, (8, 512)),
        (1221, 3, 4, (1024, 4)),
        (5, 1221, 1, (16, 1024)),
        (1221, 20, 4, (128, 32)),
        (2, 2, 2, (512, 8)),
        (1221, 33, 2, (64, 64)),
        (None, 3, 2, (512, 8)),
        (3, None, 2, (8, 512)),
        (None, None, 1, (128, 128)),
    ],
)
def test_tiles_are_as_narrow_as_a_matrix_is_known_to_be(
    rows: int | None, columns: int | None, size: int, tile: tuple[int, int]
) -> None:
    sides = [Product(1, ("N",)) if side is None else Product(side) for side in (rows, columns)]
    assert turned_tile(sides[0], sides[1], {size}) == tile


f32, f16, s8 = (program_of(TEXT.format(dtype)) for dtype in ("f32", "f16", "s8"))


@pytest.mark.parametrize("dtype", ["f32", "f16", "s8"])
def test_tensors_are_transposed(dtype: str, request: pytest.FixtureRequest) -> None:
    program: Program = request.getfixturevalue(dtype)
    for seed, info in enumerate(program.kernels):
        run(program, info, {"N": 2} if info.dims else {}, seed)


@pytest.mark.skipif(bool(nvrtc.why_unusable("13.0")), reason="needs NVRTC")
@pytest.mark.parametrize(("dtype", "result"), [("u8", "bf16"), ("bf16", "bf16"), ("f32", "bf16")])
@pytest.mark.parametrize("to_last", [False, True], ids=["channels first", "channels last"])
def test_device_memory_bounds_work_on_few_planes(
    dtype: str, result: str, to_last: bool, tmp_path: Path
) -> None:
    first, last = "[8, 3, 224, 224]", "[8, 224, 224, 3]"
    source, target, order = (first, last, "0, 2, 3, 1") if to_last else (last, first, "0, 3, 1, 2")
    work = f"permute(cast(x, f32), ({order})) * 0.5 - 1"
    text = f"kernel k(x: {dtype}{source}) -> {result}{target} {{ return {work} }}"
    (found,), dram = costs(text, {}, 4, tmp_path)
    assert max(found.issue, found.l1, found.shared, found.l2) < 0.7 * dram


COMPUTES = """\
kernel apart(x: {0}[3, 40, 9, 7], y: {0}[3, 9, 7, 40], b: {0}[40]) -> {0}[3, 9, 7, 40] {{
    return permute(x, (0, 2, 3, 1)) + y + b
}}
kernel own[N](x: {0}[N, N]) -> {0}[N, N] {{ return x + x.T }}
kernel narrow[N](x: {0}[2, N, 3], s: f32) -> (y: {0}[2, 3, N], z: {0}[2, 3, N]) {{
    y = permute(x, (0, 2, 1)) * s
    return y, -y
}}
kernel image[N](x: u8[N, 13, 37, 3], b: f32[3], y: {0}[N, 3, 13, 37]) -> {0}[N, 3, 13, 37] {{
    return permute(cast(x, f32), (0, 3, 1, 2)) * 0.125 + b[:, None, None] - y
}}
kernel both_planes[N](x: {0}[N, 2], y: {0}[N, 2]) -> (z: {0}[2, N], w: f32[2, N]) {{
    z = x.T * y.T
    return z, cast(z, f32) + cast(x.T, f32)
}}
kernel outer(x: {0}[3, 40, 9, 4]) -> {0}[4, 3, 40, 9] {{ return relu(permute(x, (3, 0, 1, 2))) }}
kernel cut[N](x: {0}[N, 700]) -> {0}[N, 3, 232] {{
    return -permute(reshape(x[:, 2:698], (N, 232, 3)), (0, 2, 1))
}}
kernel pixels[N](x: f32[N, 3, 13, 37], b: f32[3]) -> (z: {0}[N, 13, 37, 3], w: {0}[N, 13, 37, 3]) {{
    z = permute(x, (0, 2, 3, 1)) * 0.125 + b
    return z, relu(z)
}}
kernel vectors[N](x: {0}[2, N, 5], y: {0}[N, 5, 2]) -> {0}[N, 5, 2] {{ return permute(x, (1, 2, 0)) * y }}
kernel pieces[N](x: {0}[N, 3, 104]) -> f32[N, 101, 3] {{ return -permute(x[:, :, 2:103], (0, 2, 1)) }}
kernel whole[N](x: {0}[5, N, 64]) -> {0}[N, 64, 5] {{ return relu(permute(x, (1, 2, 0))) }}
kernel two(x: {0}[70, 66], y: f32[70, 66], z: {0}[66, 70]) -> {0}[66, 70] {{ return x.T * y.T + z }}
kernel three[M, N](x: f32[M, N], y: f32[M, N], z: f32[M, N]) -> {0}[N, M] {{ return x.T + y.T + z.T }}
kernel sides[M](x: {0}[5, 70, M], y: {0}[M, 5, 70]) -> {0}[5, M, 70] {{
    return permute(x, (0, 2, 1)) + permute(y, (1, 0, 2))
}}
kernel flipped(x: {0}[40, 33], y: {0}[33, 40]) -> {0}[33, 40] {{ return flip(x.T, axis=0) + y }}
kernel numbered[M, N](x: {0}[M, N], seed: s32[]) -> {0}[N, M] {{
    return where(random((M, N), seed).T > 0.5, x.T, 0)
}}
kernel gathered(x: {0}[9, 66], i: s32[66, 3]) -> {0}[3, 66, 9] {{ return gather(x.T, i.T) * 2 }}
kernel small(x: {0}[50, 9, 5]) -> {0}[50, 5, 9] {{ return permute(x, (0, 2, 1)) + 1 }}
"""
TILED = {"apart", "own", "two", "three", "sides", "numbered"}
"""The kernels of which some operand goes by tiles."""
IN_REGISTERS = {"narrow", "image", "both_planes", "outer", "cut", "pixels", "vectors", "pieces", "whole"}
"""The kernels whose threads have whole pixels of few elements."""


def test_operands_that_lie_along_another_axis_go_by_tiles() -> None:
    text = compile_text(Source("k.mcu", COMPUTES.format("f16"))).emit("cu")
    for form, kernels in (("tiles", TILED), ("planes", IN_REGISTERS)):
        assert set(re.findall(rf"mu_([a-z_]+)_[a-z0-9]+_map\([^{{]*\{{[^}}]*map_{form}<1>", text)) == kernels
    # Two tiles of f32 fit a block; the third operand is read element by element.
    _, three, *_ = text.split("namespace mu::three::")
    assert re.findall(r"tiles\.(\w)\.", three) == ["x", "y"]


computes_f32, computes_bf16, computes_s8 = (
    program_of(COMPUTES.format(dtype)) for dtype in ("f32", "bf16", "s8")
)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "s8"])
@pytest.mark.parametrize("size", [3, 64, 71])
def test_what_is_computed_of_transposed_operands(
    dtype: str, size: int, request: pytest.FixtureRequest
) -> None:
    program: Program = request.getfixturevalue(f"computes_{dtype}")
    for seed, info in enumerate(program.kernels):
        run(program, info, dict.fromkeys(info.dims, size), seed)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_the_host_compiles_launches_of_tiles_without_headers_of_the_device(tmp_path: Path) -> None:
    text = "kernel f[M, N](x: f32[M, N], y: bf16[N, M]) -> f32[N, M] { return x.T + y }"
    program = compile_text(Source("k.mcu", text)).parts().program
    assert "launch_map_tiles" in program
    (tmp_path / "program.cpp").write_text(program)
    include = [f"-I{folder}" for folder in INCLUDES]
    command = ["g++", "-std=c++17", "-fsyntax-only", *include, "program.cpp"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
