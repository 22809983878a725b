"""Index expressions: what they mean, against NumPy; what is refused; how they are laid out and come back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorlib import program, random, run, same_when_decomposed

from mucc import frontend
from mucc.compiler.driver import compile_text
from mucc.diagnostics import Diagnostic, Source
from mucc.frontend.source import module_text

BOUNDS = st.one_of(st.none(), st.integers(-9, 9))
STEPS = st.one_of(st.none(), st.integers(-4, 4).filter(bool))


@st.composite
def indices(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Any]]:
    """A shape, and an index of it that takes something."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    items: list[Any] = []
    for extent in shape[: draw(st.integers(0, len(shape)))]:
        whole = st.builds(slice, BOUNDS, BOUNDS, STEPS)
        one = st.integers(-extent, extent - 1)
        items.append(draw(st.one_of(whole.filter(lambda s, e=extent: range(e)[s]), one)))
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), ...)
        given = [i for i in items if i is not ...]
        if any(i >= items.index(...) for i in range(len(items))) and len(given) < len(shape):
            # What stands behind the dots belongs to other extents than it was drawn for.
            items = [i if i is ... else slice(None, None, -1) for i in items]
    for _ in range(draw(st.integers(0, 2))):
        items.insert(draw(st.integers(0, len(items))), None)
    return shape, items or [...]


def spelled(items: list[Any]) -> str:
    """An index as text."""

    def text(item: Any) -> str:
        if not isinstance(item, slice):
            return "..." if item is ... else str(item)
        first, last, step = ("" if b is None else str(b) for b in (item.start, item.stop, item.step))
        return f"{first}:{last}:{step}" if step else f"{first}:{last}"

    return f"[{', '.join(map(text, items))}]"


@given(indices())
def test_an_index_means_what_it_means_in_numpy(drawn: tuple[tuple[int, ...], list[Any]]) -> None:
    shape, items = drawn
    x = random(*shape)
    expected = x[tuple(items)]
    mcu = program(f"x{spelled(items)}", [shape], expected.shape)
    (y,) = run(mcu, x)
    np.testing.assert_array_equal(y, expected)
    module = lowered(mcu)
    assert str(lowered(module_text(module)).body.block.first_op) == str(module.body.block.first_op)


def lowered(text: str) -> Any:
    tree, sink = frontend.parse(Source("x.mcu", text))
    module = frontend.lower(tree, sink)
    assert not sink.has_errors, (text, sink.diagnostics)
    return module


def test_bounds_are_arithmetic_on_dims() -> None:
    x = random(2, 16)
    a, b, c, d = run(
        """kernel f[M, K=16](x: f32[M, K]) -> (a: f32[M, 8], b: f32[M, 7], c: f32[M, 3], d: f32[M]) {
            return x[:, K/2:], x[:, -(K / 2) + 1:], x[:, K % 5 : K - 8 : 3], x[:, K - 1]
        }""",
        x,
    )
    for got, wanted in zip((a, b, c, d), (x[:, 8:], x[:, -7:], x[:, 1:8:3], x[:, 15]), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_what_takes_all_is_no_operation() -> None:
    text = "kernel f[M, N](x: f32[M, N]) -> f32[M, N] { return x[:][...][0:, ::1][:, 0:] }"
    assert [op.name for op in lowered(text).body.block.first_op.body.block.ops] == ["mu.return"]
    text = "kernel f[M](x: f32[M, 8]) -> f32[M, 8] { return x[:, -8:][:, :100][..., 0:8:1] }"
    assert [op.name for op in lowered(text).body.block.first_op.body.block.ops] == ["mu.return"]


def test_axes_of_extent_one_are_read_where_they_lie() -> None:
    """No copy is made to drop an axis, whatever the layout."""
    text = """kernel f[M, K=64, N=32](
        x: f32[1, M, 1], z: bf16[M, 1, K], p: bf16[1, N, K] col_major, q: bf16[K, 1, N] strides(_, _, 1)
    ) -> (a: f32[M], b: f32[M, N], c: f32[M, N]) {
        return x[0, :, 0] * 2, z[:, 0] @ p[0].T, z[:, 0] @ q[:, 0]
    }"""
    compilation = compile_text(Source("x.mcu", text))
    emitted = compilation.emit("cutlass")
    assert emitted.count("cutlass.gemm") == 2 and emitted.count("cutlass.map") == 1
    inputs = [random(1, 5, 1), random(5, 1, 64), random(1, 32, 64), random(64, 1, 32)]
    same_when_decomposed(text, *inputs)
    for one, other in zip(run(text, *inputs), compilation.interpret("f", inputs), strict=True):
        np.testing.assert_allclose(one, other, rtol=3e-2, atol=3e-1)


@pytest.mark.parametrize(
    ("index", "code", "message"),
    [
        ("[:, :, :]", "MU1018", "3 indices for the 2 axes of f32[M, 8]"),
        ("[..., 0, ...]", "MU1018", "an index has one `...` at most"),
        ("[:, ::0]", "MU1093", "the step of a slice is 0"),
        ("[:, 4:4]", "MU1093", "the slice takes none of 8 elements"),
        ("[:, 4:2]", "MU1093", "the slice takes none of 8 elements"),
        ("[:, 8:]", "MU1093", "the slice takes none of 8 elements"),
        ("[:, 8]", "MU1093", "the index 8 is out of range"),
        ("[:, -9]", "MU1093", "the index -9 is out of range"),
        ("[:, 0.5]", "MU0013", "an index is an integer, a slice such as `2:8`, 'None' or '...'"),
        ("[:, K * 0.5]", "MU0001", "expected a dim or a number, found '0.5'"),
        ("[gather(x, i)]", "MU0013", "an index is an integer, a slice such as `2:8`, 'None' or '...'"),
        ("[]", "MU0013", "an index is an integer, a slice such as `2:8`, 'None' or '...'"),
        ("[i]", "MU1097", "the value 'i' is not an integer that is known at compile time"),
        ("[:, s:]", "MU1097", "the value 's' is not an integer that is known at compile time"),
        ("[:, ::M]", "MU1091", "`M` must be a number, and M is known at run time only"),
        ("[:1:-1]", "MU1091", "part of the extent M in reverse, which is known at run time only"),
        ("[M:]", "MU1093", "slice M:M:1 does not fit axis 0 of f32[M, 8]"),
        ("[:, : Q]", "MU1005", "undeclared dim 'Q'"),
        ("[:, : K * K * s]", "MU1097", "the value 's' is not an integer that is known at compile time"),
        ("[:, 8 / 0 :]", "MU1046", "the right side of '/' must be a positive number in an index"),
    ],
)
def test_what_is_refused(index: str, code: str, message: str) -> None:
    head = "kernel f[M, K=8](x: f32[M, K], i: s32[M], s: f32) -> f32[M, K]"
    text = f"{head} {{ y = x{index} return x + i[:, None] + s }}"
    (found,) = [d for d in diagnosed(text) if d.severity == "error"]
    assert (found.code, found.message) == (code, message)
    assert found.helps or found.notes or code in ("MU0001", "MU1005")


def diagnosed(text: str) -> list[Diagnostic]:
    source = Source("x.mcu", text)
    tree, sink = frontend.parse(source)
    if not sink.has_errors:
        frontend.lower(tree, sink)
    return list(sink.diagnostics)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("x[ : ,None , ... ]", "x[:, None, ...]"),
        ("x[::]", "x[:]"),
        ("x[2 : 8 : 2]", "x[2:8:2]"),
        ("x[-8 : , :-1,]", "x[-8:, :-1]"),
        ("x[K/2:, :K/2]", "x[K / 2 :, : K / 2]"),
        ("x[K+1::2, ::K-1, :K/2:2]", "x[K + 1 :: 2, :: K - 1, : K / 2 : 2]"),
        ("x[(K), -(K/2), (2*K)-(1+K)]", "x[K, -(K / 2), 2 * K - (1 + K)]"),
        ("x[- -1][0].T", "x[--1][0].T"),
    ],
)
def test_layout(written: str, canonical: str) -> None:
    def formatted(text: str) -> str:
        return frontend.format(Source("x.mcu", f"kernel f(x: f32[8]) -> f32[8] {{ return {text} }}"))

    assert f"return {canonical}\n" in formatted(written)
    assert formatted(canonical) == formatted(written)


@pytest.mark.parametrize(
    ("index", "shape"),
    [
        ("1:3, 4, 4:", "2, 4"),
        (":, :, ::2", "4, 6, 4"),
        ("0", "6, 8"),
    ],
)
def test_slices_come_back_as_one_index(index: str, shape: str) -> None:
    text = f"kernel f(x: f32[4, 6, 8]) -> f32[{shape}] {{ return x[{index}] }}"
    assert f"return x[{index}]\n" in module_text(lowered(text))
