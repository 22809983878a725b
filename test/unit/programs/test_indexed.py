"""Grouped products, gather and scatter: what they mean, at every level, and bad indices."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from on_host import Program, run

from mucc.compiler.driver import Compilation, compile_text
from mucc.diagnostics import DiagnosticError, Source
from mucc.dialects.mu.arrays import NumpyArrays
from mucc.library.errors import MuccValueError
from mucc.library.signature import Arg, Index, Manifest
from mucc.measure.indices import draw_indices

INCLUDE = Path(__file__).resolve().parents[3] / "mucc" / "support" / "include"
PROGRAMS = Path(__file__).resolve().parents[2] / "gpu" / "programs"

GROUPED = """\
kernel f[T, E, N, K](x: f32[T, K], w: f32[E, N, K], o: s32[E]) -> f32[T, N] {
    return grouped_matmul(x, w.T, o)
}
"""


def compiled(text: str) -> Compilation:
    return compile_text(Source("f.mcu", text))


def ends(sizes: list[int]) -> np.ndarray[Any, Any]:
    return np.cumsum(np.array(sizes, dtype=np.int32))


PLAIN = compiled(GROUPED)


@settings(max_examples=examples(60))
@given(st.lists(st.integers(0, 5), min_size=1, max_size=40).filter(sum), st.integers(0, 2**31))
def test_grouped_product_is_a_loop_over_groups(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((sum(sizes), 4)), rng.standard_normal((len(sizes), 3, 4))
    group = [g for g, size in enumerate(sizes) for _ in range(size)]
    expected = np.stack([row @ w[g].T for row, g in zip(x, group, strict=True)])
    for interpret in (PLAIN.interpret, PLAIN.interpret_lowered):
        (got,) = interpret("f", [x, w, ends(sizes)])
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


BY_GROUP = compiled(
    "kernel f[T, E, N, K](x: f32[T, K], w: f32[E, N, K], o: s32[E], s: f32[E], b: f32[N, E], c: f32[N])\n"
    "    -> (y: f32[T, N], z: f32[T, N])\n{\n    y = grouped_matmul(x, w.T, o, bias=b.T, scale=s)\n"
    "    return y, relu(grouped_matmul(x, w.T, o, bias=b.T) + c)\n}\n"
)


@settings(max_examples=examples(30))
@given(st.lists(st.integers(0, 5), min_size=1, max_size=10).filter(sum), st.integers(0, 2**31))
def test_numbers_and_rows_of_groups(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((sum(sizes), 4)), rng.standard_normal((len(sizes), 3, 4))
    s, b, c = rng.standard_normal(len(sizes)), rng.standard_normal((3, len(sizes))), rng.standard_normal(3)
    group = np.repeat(np.arange(len(sizes)), sizes)
    product = np.einsum("tk,tnk->tn", x, w[group])
    for interpret in (BY_GROUP.interpret, BY_GROUP.interpret_lowered):
        y, z = interpret("f", [x, w, ends(sizes), s, b, c])
        np.testing.assert_allclose(y, product * s[group][:, None] + b.T[group], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(z, np.maximum(product + b.T[group] + c, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("given", ["bias=s", "scale=b", "bias=o", "s"])
def test_numbers_and_rows_of_groups_that_do_not_fit(given: str) -> None:
    text = (
        "kernel f[T, E, N, K](x: bf16[T, K], w: bf16[E, N, K], o: s32[E], s: f32[E], b: f32[E, N])\n"
        f"    -> f32[T, N]\n{{\n    return grouped_matmul(x, w.T, o, {given})\n}}\n"
    )
    if given == "s":
        compiled(text)
        return
    with pytest.raises(DiagnosticError) as caught:
        compiled(text)
    assert [d.code for d in caught.value.diagnostics] == ["MU1075"]


@settings(max_examples=examples(30))
@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**31))
def test_gather_and_scatter_are_numpy_s(rows: int, named: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = compiled(
        "kernel f[T, M, J, N](x: f32[T, N], c: f32[T, N], r: s32[M, J]) -> (y: f32[M, J, N], s: f32[M, N])"
        " {\n    return gather(x + c, r), sum(gather(x, r), axis=1)\n}\n"
    )
    x, c = rng.standard_normal((2, rows, columns))
    r = rng.integers(0, rows, (named, 2))
    for interpret in (program.interpret, program.interpret_lowered):
        y, s = interpret("f", [x, c, r])
        np.testing.assert_allclose(y, (x + c)[r], rtol=1e-6)
        np.testing.assert_allclose(s, x[r].sum(axis=1), rtol=1e-5, atol=1e-6)
    back = compiled(
        f"kernel f[M, N](x: f32[M, N], r: s32[M]) -> f32[{rows + 3}, N] {{\n"
        f"    return scatter(x * 2, r, {rows + 3})\n}}\n"
    )
    places = rng.permutation(rows + 3)[:rows]
    expected = np.zeros((rows + 3, columns))
    expected[places] = 2 * x
    for interpret in (back.interpret, back.interpret_lowered):
        np.testing.assert_allclose(interpret("f", [x, places])[0], expected, rtol=1e-6)


def test_scattered_rows_are_stored_with_another_axis_beside_other_maps() -> None:
    program = compiled(
        "kernel f(x: f32[4, 6], r: s32[4]) -> (y: f32[3, 4, 6], z: f32[7, 1, 6]) {\n"
        "    return broadcast(x, (3, 4, 6)), scatter(x, r, 7)[:, None, :]\n}\n"
    )
    x, places = np.arange(24.0).reshape(4, 6), np.array([6, 0, 3, 2])
    expected = np.zeros((7, 1, 6))
    expected[places, 0] = x
    assert "store_rows(z" in program.emit("cu")
    for interpret in (program.interpret, program.interpret_lowered):
        np.testing.assert_array_equal(interpret("f", [x, places])[1], expected)


def test_a_part_of_joined_bools_beside_one_of_them_is_false() -> None:
    program = compiled(
        "kernel f[M, K](x: s32[3, 6, K, M], y: f32[6, 2, 6, K, M], s: f32[]) -> f32[M, 1, 2] {\n"
        "    v = topk(bitwise_not(x), 2, 0) * 0.5 < iota((2, 6, K, M), 3)\n"
        "    p = permute(where(v, y > 0, s > 0), (3, 4, 2, 0, 1))\n"
        "    return cast(concat(p, p, axis=-3)[-1, :, 0, -1:, ::-1], f32)\n}\n"
    )
    rng = np.random.default_rng(1)
    x, y = rng.integers(-4, 4, (3, 6, 3, 2)), rng.standard_normal((6, 2, 6, 3, 2))
    (meant,), (got,) = (i("f", [x, y, np.array(1.0)]) for i in (program.interpret, program.interpret_lowered))
    np.testing.assert_array_equal(got, meant)


PICKED = compiled(
    """
    kernel rows[B, M, N, J](x: f32[B, M, N], v: f32[N], i: s32[B, M, J], k: s32[B, M, 1]) -> (
        a: f32[B, M, J],
        b: f32[B, M, 1],
        c: f32[B, M, 1],
    ) {
        s = max(x, axis=2)[:, :, None]
        b = take_along(2 * x - s + v, k, axis=-1)
        return take_along(x, i, axis=2), b, take_along(exp(v) + s, k, axis=2)
    }

    kernel columns[M, N, J](x: bf16[M, N], y: f32[N, M], i: s32[J, N], j: s32[M, N]) -> (
        a: f32[J, N],
        b: f32[M, N],
        c: f32[N, J],
    ) {
        h = x * 2 + y.T
        return take_along(h, i, axis=0), take_along(h, j, axis=0), take_along(x, i, axis=0).T + 1
    }
    """
)


@settings(max_examples=examples(30))
@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6), st.integers(1, 7), st.integers(0, 2**31))
def test_take_along_is_numpy_s(b: int, m: int, n: int, j: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, v = rng.standard_normal((b, m, n)), rng.standard_normal(n)
    i, k = rng.integers(0, n, (b, m, j)), rng.integers(0, n, (b, m, 1))
    s = x.max(axis=2, keepdims=True)
    expected = [np.take_along_axis(t, at, 2) for t, at in ((x, i), (2 * x - s + v, k), (np.exp(v) + s, k))]
    for interpret in (PICKED.interpret, PICKED.interpret_lowered):
        for got, wanted in zip(interpret("rows", [x, v, i, k]), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    x = NumpyArrays().round_to(rng.standard_normal((m, n)), "bf16")
    y = rng.standard_normal((n, m))
    i, k = rng.integers(0, m, (j, n)), rng.integers(0, m, (m, n))
    h = 2 * x + y.T
    expected = [np.take_along_axis(t, at, 0) for t, at in ((h, i), (h, k), (x, i))]
    expected[2] = expected[2].T + 1
    for interpret in (PICKED.interpret, PICKED.interpret_lowered):
        for got, wanted in zip(interpret("columns", [x, y, i, k]), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_kernels_take_elements_along_any_axis(tmp_path: Path) -> None:
    program = Program.of(compiled(ON_HOST), tmp_path)
    (info,) = program.kernels
    for seed, sizes in enumerate([(1, 1, 1), (2, 3, 5), (8, 16, 24), (5, 64, 8), (3, 9, 16)]):
        run(program, info, dict(zip("MNJ", sizes, strict=True)), seed)


ON_HOST = """
kernel k[M, N, J](
    x: bf16[M, N],
    y: s32[M, N] strides(_, 1),
    z: f16[N, M] col_major,
    v: f32[N],
    i: s32[M, J],
    one: s32[M],
    j: s32[J, N],
    whole: s32[M, N],
) -> (a: bf16[M, J], b: s32[M, J], c: f32[M, 1], d: f16[J, M], e: f32[J, N], f: f32[M]) {
    a = take_along(x, i, axis=1) * 2
    b = take_along(y, i, axis=1)
    c = take_along(x + v, one[:, None], axis=1)
    d = take_along(z.T, i, axis=1).T
    e = take_along(x - v, j, axis=0)
    return a, b, c, d, e, sum(take_along(x, whole, axis=0) * y, axis=1)
}
"""


@pytest.mark.parametrize(
    ("offsets", "code"), [((2, 1, 4), "MU6022"), ((1, 2, 3), "MU6023"), ((1, 2, 5), "MU6023")]
)
def test_bad_offsets_have_no_meaning(offsets: tuple[int, ...], code: str) -> None:
    with pytest.raises(ValueError, match=code):
        PLAIN.interpret("f", [np.ones((4, 2)), np.ones((3, 2, 2)), np.array(offsets)])


def test_bad_rows_have_no_meaning() -> None:
    text = (
        "kernel g[T, M](x: f32[T], r: s32[M]) -> f32[M] {\n    return gather(x, r)\n}\n"
        "kernel s[M](x: f32[M], r: s32[M]) -> f32[4] {\n    return scatter(x, r, 4)\n}\n"
        "kernel t[T, M](x: f32[T], r: s32[M]) -> f32[M] {\n    return take_along(2 * x, r, axis=0)\n}\n"
    )
    program = compiled(text)
    for kernel, rows in (("g", (0, -1)), ("g", (2, 3)), ("t", (2, 0)), ("s", (4, 0))):
        with pytest.raises(MuccValueError) as bad:
            program.interpret(kernel, [np.ones(2), np.array(rows)])
        assert bad.value.code == "MU6024"
    with pytest.raises(MuccValueError) as bad:
        program.interpret("s", [np.ones(2), np.array((3, 3))])
    assert bad.value.code == "MU6025"


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("g[ar]*[ed]_*.mcu")), ids=lambda p: p.stem)
def test_programs_for_the_gpu_mean_the_same_when_lowered(path: Path) -> None:
    program = compiled(path.read_text())
    rng = random.Random(7)
    values = np.random.default_rng(7)
    free = {"T": 40, "S": 24, "E": 5, "D": 16, "H": 24, "K": 8, "N": 8, "J": 2, "M": 24}
    for info in Manifest.parse(program.emit("manifest")).kernels:
        dims = {n: free[n] if v is None else v for n, v in info.dims.items()}
        inputs = [
            np.array(draw_indices(a, dims, rng), dtype=float).reshape(a.extents(dims))
            if a.indices
            else NumpyArrays().round_to(8 * values.standard_normal(a.extents(dims)), a.dtype)
            for a in info.inputs
        ]
        got, expected = program.interpret_lowered(info.name, inputs), program.interpret(info.name, inputs)
        for a, b in zip(got, expected, strict=True):
            assert np.linalg.norm(a - b) <= 1e-2 * np.linalg.norm(b)


# Indices in a manifest, and random ones


def test_manifest_says_what_indices_must_be() -> None:
    text = (
        "kernel f[T, S, E, N, K](x: bf16[T, K], w: bf16[E, N, K], o: s32[E] strides(_), r: s32[S], q: s32[S])"
        " -> bf16[T, N] {\n    return scatter(grouped_matmul(gather(x, r), w.T, o), q, T)\n}\n"
    )
    (info,) = Manifest.parse(compiled(text).emit("manifest")).kernels
    assert {a.name: a.indices for a in info.inputs} == {
        "x": (),
        "w": (),
        "o": (Index("ends", "S", False),),
        "r": (Index("rows", "T", False),),
        "q": (Index("rows", "T", True),),
    }


@given(st.integers(1, 50), st.integers(1, 99), st.randoms(use_true_random=False))
def test_random_indices_are_good(count: int, rows: int, rng: random.Random) -> None:
    def draw(kind: Any, once: bool) -> list[int]:
        arg = Arg("i", "input", "s32", ("E",), "row_major", 4, (Index(kind, "T", once),))
        return draw_indices(arg, {"E": count, "T": rows}, rng)

    drawn = draw("ends", False)
    assert len(drawn) == count and drawn == sorted(drawn) and drawn[0] >= 0 and drawn[-1] == rows
    assert all(0 <= r < rows for r in draw("rows", False))
    if count <= rows:
        assert len(set(draw("rows", True))) == count
    else:
        with pytest.raises(ValueError, match="each once"):
            draw("rows", True)


# The checks of a library

CHECKS = """
#include <mucc/check.h>
using namespace mucc;
constexpr ArgSpec args[] = {tensor_in("o", kS32, {fixed(3)}, row_major(), 4)};
constexpr Kernel k{"f", args, none, none, nullptr, nullptr};
int main() {
  int32_t const ends[][3] = {{0, 0, 9}, {2, 1, 9}, {-1, 2, 9}, {1, 2, 8}, {1, 2, 10}, {1, 2, 2147483647}};
  for (auto& e : ends) std::printf("%s\\n", check_ends(k, 0, e, 3, 9) ? last_error.text : "good");
  int32_t const rows[][3] = {{0, 8, 0}, {0, 9, 1}, {0, 1, -1}, {-2147483647 - 1, 0, 0}};
  for (auto& r : rows)
    std::printf("%s\\n", check_rows(k, 0, r, 3, 9, false, nullptr) ? last_error.text : "good");
  char seen[9] = {};
  std::printf("%s\\n", check_rows(k, 0, rows[0], 3, 9, true, seen) ? last_error.text : "good");
}
"""


def test_library_says_what_is_wrong_with_indices(tmp_path: Path) -> None:
    if not (gxx := shutil.which("g++")):
        pytest.skip("needs g++")
    (tmp_path / "a.cpp").write_text(CHECKS)
    command = [gxx, "-std=c++17", "-Wall", "-Werror", f"-I{INCLUDE}", "a.cpp", "-o", "a"]
    subprocess.run(command, cwd=tmp_path, check=True)
    lines = subprocess.run([tmp_path / "a"], check=True, capture_output=True, text=True).stdout.splitlines()
    about = "argument 'o' of f: "
    assert lines == [
        "good",
        f"MU6022: {about}[1] = 1 is less than the end before it, 2",
        f"MU6022: {about}[0] = -1 is less than the end before it, 0",
        f"MU6023: {about}the groups end at 8, but there are 9 rows",
        f"MU6023: {about}the groups end at 10, but there are 9 rows",
        f"MU6023: {about}the groups end at 2147483647, but there are 9 rows",
        "good",
        f"MU6024: {about}element 1 is 9, which is none of the 9 rows",
        f"MU6024: {about}element 2 is -1, which is none of the 9 rows",
        f"MU6024: {about}element 0 is -2147483648, which is none of the 9 rows",
        f"MU6025: {about}element 2 names row 0 again",
    ]
