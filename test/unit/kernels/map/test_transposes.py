"""Copies that transpose: which axes are the rows and columns of their matrices, and the tiles they go by."""

from __future__ import annotations

import re

import pytest
from on_host import Program, program_of, run

from mucc.codegen.memory import Product
from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.kernels.map.packing import turned_tile

TEXT = """\
kernel image[N](x: {0}[N, 3, 33, 37]) -> {0}[N, 33, 37, 3] {{ return permute(x, (0, 2, 3, 1)) }}
kernel planes[N](x: {0}[N, 33, 37, 5]) -> {0}[N, 5, 33, 37] {{ return permute(x, (0, 3, 1, 2)) }}
kernel filter(x: {0}[70, 3, 3, 130]) -> {0}[130, 70, 3, 3] {{ return permute(x, (3, 0, 1, 2)) }}
kernel back(x: {0}[70, 30, 3, 3]) -> {0}[3, 3, 30, 70] {{ return permute(x, (2, 3, 1, 0)) }}
kernel both(x: {0}[9, 5, 70, 66]) -> {0}[66, 5, 9, 70] {{ return permute(x, (3, 1, 0, 2)) }}
kernel part(x: {0}[64, 6, 21]) -> {0}[20, 64, 4] {{ return permute(x[:, 1:5, :20], (2, 0, 1)) }}
"""
MATRICES = {
    "image": "N, 1221, 3",
    "planes": "N, 5, 1221",
    "filter": "130, 630",
    "back": "30, 9, 70",
    "both": "5, 9, 66, 70",
    "part": "64, 20, 4",
}
"""The rows and columns of each transpose, behind the axes around them."""


def test_sides_of_the_matrix_take_in_the_axes_that_adjoin_them() -> None:
    text = compile_text(Source("k.mcu", TEXT.format("f16"))).emit("cu")
    found = re.findall(r"launch_pack\(c, \"out\", codes, op, \{\{(.*)\}\}\)", text)
    assert found == list(MATRICES.values())


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
    assert turned_tile(sides[0], sides[1], size) == tile


f32, f16, s8 = (program_of(TEXT.format(dtype)) for dtype in ("f32", "f16", "s8"))


@pytest.mark.parametrize("dtype", ["f32", "f16", "s8"])
def test_tensors_are_transposed(dtype: str, request: pytest.FixtureRequest) -> None:
    program: Program = request.getfixturevalue(dtype)
    for seed, info in enumerate(program.kernels):
        run(program, info, {"N": 2} if info.dims else {}, seed)
