"""How contractions walk along tensors: loads of epilogues, operands of TMA, folded batch axes."""

from __future__ import annotations

import pytest
from builders import access, last_stage, strided

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.dialects.mu.types import Dim, Dims, LayoutAttr
from mucc.kernels.gemm.axes import Pattern, classify, lhs_access, matmul_dims, operand_fits, rhs_access
from mucc.kernels.lowering.access import Axes

COL, ROW_MAJOR = LayoutAttr.col_major(), LayoutAttr.row_major()


MATRIX = [
    (("M", "N"), (0, 1), ROW_MAJOR, Pattern.MATRIX),
    (("M", "N"), (0, 1), COL, Pattern.MATRIX),
    (("N", "M"), (1, 0), ROW_MAJOR, Pattern.MATRIX),
    (("M", "N"), (0, 1), strided(None, 1), Pattern.MATRIX),
    (("M", "N"), (0, 1), strided(None, 2), None),
    (("N",), (1,), ROW_MAJOR, Pattern.ROW),
    ((1, "N"), (None, 1), ROW_MAJOR, Pattern.ROW),
    (("N", 1), (1, None), ROW_MAJOR, Pattern.ROW),
    (("N",), (1,), strided(None), None),
    (("M", 1), (0, None), ROW_MAJOR, Pattern.COL),
    (("M",), (0,), ROW_MAJOR, Pattern.COL),
    (("M", 1), (0, None), strided(None, 1), None),
    ((), (), ROW_MAJOR, Pattern.SCALAR),
    ((1, 1), (None, None), ROW_MAJOR, Pattern.SCALAR),
]

BATCHED = [
    (("B", "M", "N"), (0, 1, 2), ROW_MAJOR, Pattern.MATRIX),
    (("M", "N"), (1, 2), ROW_MAJOR, Pattern.MATRIX),
    ((1, "M", "N"), (None, 1, 2), ROW_MAJOR, Pattern.MATRIX),
    (("B", "M", "N"), (0, 1, 2), strided(1, None, None), None),
    (("N",), (2,), ROW_MAJOR, Pattern.ROW),
    (("B", 1, "N"), (0, None, 2), ROW_MAJOR, Pattern.ROW),
    (("M", 1), (1, None), ROW_MAJOR, Pattern.COL),
    (("B", "M", 1), (0, 1, None), ROW_MAJOR, Pattern.COL),
    (("B", 1, 1), (0, None, None), ROW_MAJOR, Pattern.SCALAR),
    (("B",), (0,), strided(None), Pattern.SCALAR),
    ((), (), ROW_MAJOR, Pattern.SCALAR),
]

TWO_BATCHES = [
    (("B", "H", "M", "N"), (0, 1, 2, 3), ROW_MAJOR, Pattern.MATRIX),
    (("B", "H", "M", "N"), (0, 1, 2, 3), COL, Pattern.MATRIX),
    (("B", "H", "M", "N"), (0, 1, 2, 3), strided(None, None, None, 1), None),
    (("H", "M", "N"), (1, 2, 3), ROW_MAJOR, None),
    (("B", "H", 1, "N"), (0, 1, None, 3), ROW_MAJOR, Pattern.ROW),
    (("B", 1, 1, "N"), (0, None, None, 3), ROW_MAJOR, None),
    (("B", "H", "M", 1), (0, 1, 2, None), ROW_MAJOR, Pattern.COL),
    (("B", "H", 1, 1), (0, 1, None, None), ROW_MAJOR, Pattern.SCALAR),
    (("B", "H", 1, 1), (0, 1, None, None), strided(None, None, 1, 1), None),
]


@pytest.mark.parametrize(
    ("rank", "dims", "axes", "layout", "pattern"),
    [*((2, *c) for c in MATRIX), *((3, *c) for c in BATCHED), *((4, *c) for c in TWO_BATCHES)],
)
def test_classify(rank: int, dims: Dims, axes: Axes, layout: LayoutAttr, pattern: Pattern | None) -> None:
    space = ("B", "H", "M", "N")[-rank:]
    assert classify(access(dims, axes, layout), space) is pattern


@pytest.mark.parametrize(
    ("dims", "axes", "pattern"),
    [
        (("B", "H", "M", "N"), (0, 1, 2, 3), Pattern.MATRIX),
        (("B", 1, 1, "N"), (0, None, None, 3), Pattern.ROW),
        (("N",), (3,), Pattern.ROW),
        (("H", "M", 1), (1, 2, None), Pattern.COL),
        (("B", "H", "M", 1), (0, 1, 2, None), Pattern.COL),
        (("B", 1, 1, 1), (0, None, None, None), Pattern.SCALAR),
    ],
)
def test_classify_where_heads_are_rows(dims: Dims, axes: Axes, pattern: Pattern) -> None:
    assert classify(access(dims, axes), ("B", "H", "M", "N"), folded=1) is pattern


@pytest.mark.parametrize(
    ("dims", "axes", "pattern"),
    [
        (("H", "M", "N"), (1, 2, 3), Pattern.MATRIX),
        ((1, "H", "M", "N"), (None, 1, 2, 3), Pattern.MATRIX),
        (("M", "N"), (2, 3), Pattern.MATRIX),
        (("H", "M", 1), (1, 2, None), Pattern.COL),
        (("H", 1, "N"), (1, None, 3), Pattern.ROW),
    ],
)
def test_classify_does_not_count_batches_of_one(dims: Dims, axes: Axes, pattern: Pattern) -> None:
    assert classify(access(dims, axes), (1, "H", "M", "N")) is pattern


@pytest.mark.parametrize(
    ("rank", "dims", "axes", "layout", "fits"),
    [
        (2, ("M", "K"), (0, 1), ROW_MAJOR, True),
        (2, ("M", "K"), (0, 1), COL, True),
        (2, ("K", "M"), (1, 0), strided(None, 1), True),
        (2, ("M", "K"), (0, 1), strided(None, 2), False),
        (2, ("K",), (0,), ROW_MAJOR, False),
        (3, ("M", "K"), (1, 2), ROW_MAJOR, True),
        (3, ("B", "M", "K"), (0, 1, 2), ROW_MAJOR, True),
        (3, ("B", "M", "K"), (0, 1, 2), strided(None, None, 1), True),
        (3, ("B", "M", "K"), (0, 1, 2), strided(1, None, None), False),
        (3, (1, "M", "K"), (None, 1, 2), ROW_MAJOR, True),
        (4, ("B", "H", "M", "K"), (0, 1, 2, 3), ROW_MAJOR, True),
        (4, ("B", "H", "M", "K"), (0, 1, 2, 3), strided(None, None, None, 1), False),
        (4, ("H", "M", "K"), (1, 2, 3), ROW_MAJOR, False),
        (4, ("B", 1, "M", "K"), (0, None, 2, 3), ROW_MAJOR, False),
    ],
)
def test_operand_fits(rank: int, dims: Dims, axes: Axes, layout: LayoutAttr, fits: bool) -> None:
    assert operand_fits(access(dims, axes, layout), ("B", "H", "M", "K")[-rank:]) is fits


def test_operand_fits_without_batches_of_one() -> None:
    whole = access((1, "H", "M", "K"), (None, 1, 2, 3), ROW_MAJOR)
    assert operand_fits(whole, (1, "H", "M", "K")) and not operand_fits(whole, ("B", "H", "M", "K"))


def test_a_vector_is_a_matrix_of_one_row() -> None:
    row, column = access(("K",), (1,), ROW_MAJOR), access(("K",), (0,), ROW_MAJOR)
    space = ("M", "K")
    assert operand_fits(row, space, frozenset({0})) and operand_fits(column, space, frozenset({1}))
    assert not operand_fits(row, space) and not operand_fits(row, space, frozenset({1}))


def test_the_operands_of_a_contraction() -> None:
    found = last_stage(
        "kernel k[B, N, K](x: bf16[B, 1, K], w: bf16[N, K]) -> bf16[B, 1, N] { return x @ w.T }"
    )
    matmul = found.anchor
    left, right = lhs_access(found, matmul), rhs_access(found, matmul)  # type: ignore[arg-type]
    # The last two axes are walked even where their extent is 1.
    assert (left.base.name_hint, left.axes) == ("x", (0, 1, 2))
    assert (right.base.name_hint, right.axes) == ("w", (2, 1))


def shape(mcu: str) -> tuple[tuple[Dim, ...], ...]:
    problem = matmul_dims(last_stage(mcu))
    return problem.m, problem.n, problem.k, problem.batch


HEAD = "kernel k[B, M, N, K](x: bf16[B, M, K], w: bf16[K, N], v: bf16[B, K, N], b: f32[N], c: f32[B, M], "
FLAT = (("B", "M"), ("N",), ("K",), ())
BATCH = (("M",), ("N",), ("K",), ("B",))


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("r: f32[B, M, N]) -> bf16[B, M, N] { return x @ w + b + c[:, :, None] + r }", FLAT),
        ("s: f32) -> (y: bf16[B, M, N], z: f32[B, M]) { y = (x @ w) * s return y, sum(y, axis=2) }", FLAT),
        ("s: f32[]) -> (y: f32[N], z: f32[]) { y = x @ w * s return sum(y, axis=(0, 1)), amax(y) }", FLAT),
        ("s: f32) -> bf16[B, M, N] { return x @ v }", BATCH),
        ("r: f32[M, N]) -> bf16[B, M, N] { return x @ w + r }", BATCH),
        ("r: f32[M, 1]) -> bf16[B, M, N] { return x @ w + r }", BATCH),
        ("r: f32[B, 1, N]) -> bf16[B, M, N] { return x @ w + r }", BATCH),
        ("r: f32[B, 1, 1]) -> bf16[B, M, N] { return x @ w + r }", BATCH),
        ("r: f32[B, M, N] strides(_, _, 1)) -> bf16[B, M, N] { return x @ w + r }", BATCH),
        ("r: f32[B, N, M]) -> bf16[B, M, N] { return x @ w + r.T }", BATCH),
        ("s: f32) -> (y: bf16[B, M, N], z: f32[B, N]) { y = x @ w return y, sum(y, axis=1) }", BATCH),
        ("q: bf16[B, M, K] col_major) -> bf16[B, M, N] { return q @ w }", BATCH),
        ("q: bf16[M, K]) -> bf16[B, M, N] { return q @ v }", BATCH),
        ("q: bf16[M, K]) -> bf16[M, N] { return q @ w }", (("M",), ("N",), ("K",), ())),
    ],
)
def test_problem(rest: str, expected: tuple[tuple[Dim, ...], ...]) -> None:
    assert shape(HEAD + rest) == expected


def test_a_row_for_each_batch_is_one_product() -> None:
    head = "kernel k[B, N, K](x: bf16[B, 1, K], w: bf16[K, N], r: f32[B, 1, N]) -> bf16[B, 1, N]"
    assert shape(head + " { return x @ w + r }") == (("B", 1), ("N",), ("K",), ())


HEADS = "kernel k[B, H, M, N, K](q: bf16[B, H, M, K], k: bf16[B, N, K], j: bf16[H, N, K], "
GROUPED = (("H", "M"), ("N",), ("K",), ("B",))
EACH = (("M",), ("N",), ("K",), ("B", "H"))


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("s: f32) -> bf16[B, H, M, N] { return q @ k[:, None, :, :].T }", GROUPED),
        (
            "r: f32[B, H, M]) -> bf16[B, H, M, N] { return q @ k[:, None, :, :].T * r[:, :, :, None] }",
            GROUPED,
        ),
        ("r: f32[B, 1, 1, N]) -> bf16[B, H, M, N] { return q @ k[:, None, :, :].T + r }", GROUPED),
        # What differs between heads but not between rows, or the other way round.
        ("r: f32[B, H, 1, 1]) -> bf16[B, H, M, N] { return q @ k[:, None, :, :].T * r }", EACH),
        ("r: f32[M, 1]) -> bf16[B, H, M, N] { return q @ k[:, None, :, :].T * r }", EACH),
        ("s: f32) -> f32[B, H, M] { return sum(q @ k[:, None, :, :].T, axis=-1) }", EACH),
        # Heads are the inner axis: they cannot be batches around the outer one as rows.
        ("s: f32) -> bf16[B, H, M, N] { return q @ j.T }", EACH),
    ],
)
def test_axes_that_the_right_operand_lacks_are_rows(rest: str, expected: tuple[tuple[Dim, ...], ...]) -> None:
    assert shape(HEADS + rest) == expected


@pytest.mark.parametrize(
    "types, product",
    [
        ("x: f16[N, 1, 8], w: f16[1, 3, N]) -> f32[1, 8, 3]", "permute(x, (1, 2, 0)) @ w.T"),
        ("x: f16[N, 1, 1, 8], w: f16[N, 3]) -> f32[1, 1, 8, 3]", "permute(x, (1, 2, 3, 0)) @ w"),
        ("x: f16[1, 3, N], w: f16[8, 1, N]) -> f32[1, 3, 8]", "x @ permute(w, (1, 2, 0))"),
    ],
)
def test_a_matrix_around_an_axis_of_one_element_is_read_in_place(types: str, product: str) -> None:
    compilation = compile_text(Source("k.mcu", f"kernel f[N]({types} {{ return {product} }}"))
    assert compilation.emit("cu")
    assert "cutlass.map" not in compilation.emit("cutlass")
