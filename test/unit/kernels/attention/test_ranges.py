"""Masks that leave each row a range of columns: what kernels make of them, run on the host."""

from __future__ import annotations

import numpy as np
import pytest
from on_host import Program, run

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics.core import Source

HEAD = "(q: f16[B, S, 64], k: f16[B, T, 64], v: f16[B, T, 32], n: s32[B]) -> f16[B, S, 32]"
INDICES = "i = iota((B, S, T), axis=1)\n    j = iota((B, S, T), axis=2)\n    m = n[:, None, None]"

MASKS = {
    "window": "i - j < 70 and j <= i",
    "band": "where(i - j < 5 and -9 < i - j, 0.25 * (i - j), -inf)",
    "prefix": "not (j > i) or j < m * 40",
    "lengths": "j < m * 50",
    "filled": "where(j > i + 3 or j < i - 60, -inf, 0)",
    "cast": "where(j > i, cast(-inf, f16), 0)",
    "one": "j == i + m",
    "ahead": "j >= i and j - m < i + 20",
}
"""Masks of which nothing is left but ranges."""

OTHERS = {
    "picked": "j <= i and (j < 3 or j > i - 9)",
    "striped": "j <= i and n[:, None, None] + j != 4",
}
"""Masks of which something is left."""

KERNELS = "\n".join(
    f"kernel {name}[B, S, T]{HEAD} {{\n    {INDICES}\n    return attention(q, k, v, mask={mask})\n}}"
    for name, mask in (MASKS | OTHERS).items()
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program.of(compile_text(Source("k.mcu", KERNELS)), tmp_path_factory.mktemp("ranges"))


def _lowered(program: Program, name: str) -> str:
    programs = str(program.compilation.cutlass).split("cutlass.program")
    return next(text for text in programs if f"@{name}(" in text)


@pytest.mark.parametrize("name", MASKS)
def test_ranges_are_found(program: Program, name: str) -> None:
    text = _lowered(program, name)
    assert "mu.select" not in text and "mu.cmp" not in text
    assert " first %" in text or " last %" in text


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_range_is_left(program: Program, name: str) -> None:
    text = _lowered(program, name)
    assert "mu.select" in text and " last %" in text


# Long enough for skipped tiles before and behind; more queries than keys, whose last rows see no column.
@pytest.mark.parametrize("lengths", [(1, 9), (5, 300), (150, 340), (330, 70)], ids=str)
@pytest.mark.parametrize("name", [*MASKS, *OTHERS])
def test_kernels_agree_with_the_interpreter(program: Program, name: str, lengths: tuple[int, int]) -> None:
    program.library.on_host_sm_count(3)
    info = next(k for k in program.kernels if k.name == name)
    floats = (-2.0, -0.75, 0.0, 0.5, 1.0, 3.0)
    dims = {"B": 2, "S": lengths[0], "T": lengths[1]}
    run(program, info, dims, seed=5, floats=floats, within=2**-9, align=16)


@pytest.mark.parametrize("lengths", [(5, 300), (70, 150)], ids=str)
@pytest.mark.parametrize("name", ["window", "band", "lengths"])
def test_kernels_that_read_elements_agree(program: Program, name: str, lengths: tuple[int, int]) -> None:
    info = next(k for k in program.kernels if k.name == name)
    dims = {"B": 2, "S": lengths[0], "T": lengths[1]}
    run(program, info, dims, seed=6, floats=(-2.0, 0.5, 1.0), within=2**-9, align=1)


def test_targets_without_warpgroups_skip_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    compilation = compile_text(Source("k.mcu", KERNELS), Options(target="sm_80"))
    other = Program.of(compilation, tmp_path_factory.mktemp("ranges_sm_80"))
    for name in MASKS:
        info = next(k for k in other.kernels if k.name == name)
        run(other, info, {"B": 1, "S": 100, "T": 210}, seed=7, floats=(-1.0, 2.0), within=2**-9, align=16)


def test_the_last_key_of_a_row_may_be_its_own_number() -> None:
    text = (
        "kernel f(q: f16[3, 5, 16], k: f16[3, 5, 16], v: f16[3, 5, 16]) -> f16[3, 5, 16] {\n"
        "    later = iota((5,), axis=0)[None, :] > iota((5,), axis=0)[:, None]\n"
        "    return softmax(where(later, -inf, q @ k.T)) @ v\n}\n"
    )
    made = compile_text(Source("t.mcu", text))
    assert " last %" in made.emit("cutlass")
    inputs = [np.random.default_rng(i).standard_normal((3, 5, 16)) for i in range(3)]
    (meant,), (got,) = made.interpret("f", inputs), made.interpret_lowered("f", inputs)
    np.testing.assert_allclose(got, meant, atol=1e-2)
