"""Arrays with bounds of errors: what they have, and that bounds hold."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import mucc.dialects.mu.meanings as meanings
from mucc.dialects.mu import interpreter
from mucc.dialects.mu.arrays import NumpyArrays
from mucc.dialects.mu.bounded import BoundedArrays
from mucc.dialects.mu.bounded_functions import Functions
from mucc.dialects.mu.bounded_values import HALF, LARGEST, SINGLE, TF32, Bounded
from mucc.dialects.mu.meanings.composite import sorted_along
from mucc.dialects.mu.sum_roundings import running_roundoff, sum_roundoff

PLAIN = NumpyArrays()
ARRAYS: Any = BoundedArrays(PLAIN)


def used(name: str) -> set[str]:
    """The attributes of `xp` or `arrays` that meanings of operations on whole tensors call."""
    folder = Path(meanings.__file__).parent
    found: set[str] = set()
    for path in (*folder.glob("*.py"), Path(interpreter.__file__)):
        if path.stem == "elementwise":
            continue  # evaluated on plain arrays
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value).rpartition(".")[2] == name:
                found.add(node.attr)
    return found


def test_all_functions_that_meanings_call_are_there() -> None:
    assert used("xp") > {"exp", "where"}
    assert [f for f in used("xp") if not hasattr(Functions, f)] == []
    assert [f for f in used("arrays") if not hasattr(BoundedArrays(PLAIN), f)] == []


def around(values: Any, error: float) -> Bounded:
    return Bounded(ARRAYS, values, np.abs(values) * error)


NUMBERS = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=20).map(np.array)
SHARES = st.sampled_from((0.0, 1e-7, 1e-3))


@settings(max_examples=examples(60))
@given(a=NUMBERS, seed=st.integers(0, 2**31), error=SHARES)
def test_bounds_hold_for_values_anywhere_in_their_intervals(a: Any, seed: int, error: float) -> None:
    random: Any = np.random.default_rng(seed)
    b = PLAIN.round_to(random.standard_normal(a.shape), "f32")
    x, y = around(a, error), around(b, error)
    xs, ys = (v.value + v.bound * random.uniform(-1, 1, a.shape) for v in (x, y))
    xp = ARRAYS.xp
    with np.errstate(all="ignore"):
        cases: list[tuple[Bounded, Any]] = [
            (x + y, xs + ys),
            (x - y, xs - ys),
            (x * y, xs * ys),
            (x / y, xs / ys),
            (xp.exp(x / 100), np.exp(xs / 100)),
            (xp.maximum(x, y), np.maximum(xs, ys)),
            (xp.where(x < y, x, y * 3), np.where(xs < ys, xs, ys * 3)),
            (ARRAYS.reduce("max", x, (0,)), xs.max()),
            (ARRAYS.reduce("sum", xp.abs(x), (0,)), np.abs(xs).sum()),
            (ARRAYS.reduce("prod", y, (0,)), ys.prod()),
            (ARRAYS.round_to(x, "bf16"), PLAIN.round_to(xs, "bf16")),
            (ARRAYS.round_to(x, "s8"), PLAIN.round_to(xs, "s8")),
        ]
        for found, value in cases:
            apart = np.abs(PLAIN.round_to(value, "f32") - found.value)
            # Bounds are of first order, and values inside of intervals are no numbers of f32.
            room = found.bound * (1 + 2 * error * a.size) + (2.0**-23 * np.abs(value) + 1e-45) * (error > 0)
            assert (apart <= room).all(), (found.value, found.bound, value)


def test_exact_operands_err_by_no_more_than_their_rounding() -> None:
    third = ARRAYS.of(np.array([1.0, 2.0, 8.0])) * ARRAYS.of(np.array([3.0, 0.5, 0.25]))
    assert (third.bound == 0).all()
    assert ((third + third).bound == 0).all()
    tenth = third * ARRAYS.of(np.array(0.1))
    assert (tenth.bound > 0).all() and (tenth.bound <= np.abs(tenth.value) * 2.0**-24).all()


def test_what_is_beyond_f32_is_infinite() -> None:
    huge = ARRAYS.of(np.array([1e30, -1e30, 1.0])) * ARRAYS.of(np.array(1e30))
    assert huge.value.tolist()[:2] == [np.inf, -np.inf] and huge.value[2] < LARGEST
    assert (huge.bound[:2] == 0).all()


def test_a_quotient_by_what_may_be_0_can_be_anything() -> None:
    divisor = Bounded(ARRAYS, np.array([0.0, 1e-9, 1.0, 0.0]), np.array([1e-8, 1e-8, 1e-8, 0.0]))
    bound = (ARRAYS.of(np.array(1.0)) / divisor).bound
    assert np.isinf(bound[:2]).all() and bound[2] < 1e-6 and bound[3] == 0


def test_infinity_times_what_may_be_0_can_be_anything() -> None:
    infinite = ARRAYS.of(np.array([-np.inf, -np.inf, -np.inf, np.inf]))
    factor = Bounded(ARRAYS, np.array([1e-9, -1e-8, 1.0, 2.0]), np.array([1e-8, 1e-8, 1e-8, 0.0]))
    for product in (infinite * factor, factor * infinite):
        assert product.bound.tolist() == [np.inf, np.inf, 0, 0]
        assert (product.value == infinite.value)[[2, 3]].all()


def test_functions_of_infinity_times_0_can_be_anything() -> None:
    """A channel of equal elements is 0 behind a batch norm but for the rounding of its mean."""
    deviation = Bounded(ARRAYS, np.array([0.0, 0.0, 0.0]), np.array([1e-8, 0.0, 1e-8]))
    scaled = deviation * ARRAYS.of(np.array([np.inf, np.inf, np.nan]))
    for value in (ARRAYS.xp.abs(scaled), ARRAYS.xp.abs(scaled + ARRAYS.of(np.array(1.0)))):
        assert value.bound[0] == np.inf and not np.isnan(value.value[0])
        assert np.isnan(value.value[1:]).all()


def test_what_may_be_anything_stays_so() -> None:
    anything = Bounded(ARRAYS, np.array([np.inf, 2.0, np.inf]), np.array([np.inf, np.inf, 0.0]))
    one = around(np.ones(3), 1e-7)
    for value in (
        anything + one,
        one - anything,
        anything * one,
        anything / one,
        anything / ARRAYS.full((), 2.0),
    ):
        assert np.isinf(value.bound[:2]).all() and value.bound[2] == 0
    either = Bounded(ARRAYS, np.array([True]), np.array([True]))
    assert (
        ARRAYS.xp.where(either, ARRAYS.of(np.array([np.inf])), ARRAYS.of(np.array([1.0]))).bound[0] == np.inf
    )
    assert ARRAYS.reduce("sum", anything, (0,)).bound == np.inf
    assert ARRAYS.xp.cumsum(anything, 0).bound.tolist() == [np.inf] * 3


def test_terms_of_a_product_that_may_be_anything() -> None:
    a = Bounded(ARRAYS, np.array([[np.inf, 1.0], [np.inf, 1.0], [2.0, np.inf]]), np.zeros((3, 2)))
    b = Bounded(ARRAYS, np.array([[1e-9, 1.0], [1.0, 1.0]]), np.full((2, 2), 1e-8))
    product = a @ b
    assert product.bound.tolist() == [[np.inf, 0], [np.inf, 0], [0, 0]]
    unknown = Bounded(ARRAYS, np.array([[np.inf, 1.0]]), np.array([[np.inf, 0.0]]))
    assert np.isinf((unknown @ ARRAYS.of(np.ones((2, 2)))).bound).all()


def test_where_the_error_decides_what_is_beyond_f32_anything_can_come() -> None:
    near = Bounded(ARRAYS, np.array([1e38, 1e38, 1e36]), np.array([1e36, 1e30, 1e30]))
    product = near * ARRAYS.full((), 3.42)
    assert product.value[1] == np.inf and product.bound[:2].tolist() == [np.inf, 0]
    assert np.isfinite(product.value[[0, 2]]).all()


def test_squares_and_their_sums_are_not_negative() -> None:
    x = Bounded(ARRAYS, np.array([[0.0, 1e-6], [3.0, 4.0]]), np.full((2, 2), 1e-2))
    variance = ARRAYS.reduce("mean", x * x, (1,))
    assert variance.least == 0 and (variance.value < variance.bound)[0]

    def rsqrt(v: Any) -> Any:
        return 1 / np.sqrt(v)

    root = ARRAYS.applied(rsqrt, (variance + ARRAYS.full((), 1e-5),))
    assert np.isfinite(root.bound).all() and root.bound[0] <= 1e-5**-0.5
    assert np.isfinite((x / ARRAYS.xp.sqrt(variance + ARRAYS.full((), 1e-5))).bound).all()
    signed = ARRAYS.reduce("mean", x * (x + ARRAYS.full((), 0.0) + ARRAYS.full((), 1e-3)), (1,))
    assert signed.least == -np.inf
    with np.errstate(all="ignore"):
        assert np.isinf((ARRAYS.of(np.ones(2)) / signed).bound[0])


def test_any_of_several_may_be_the_largest() -> None:
    x = Bounded(ARRAYS, np.array([[1.0, 5.0, 5.1, 2.0, 4.95]]), np.full((1, 5), 0.1))
    place = ARRAYS.xp.argmax(x, 1)
    assert place.value.tolist() == [2] and place.bound.tolist() == [2]
    least = ARRAYS.xp.argmin(x, 1)
    assert least.value.tolist() == [0] and least.bound.tolist() == [0]


@pytest.mark.parametrize(("how", "relative"), [(SINGLE, 2e-5), (HALF, 1e-4), (TF32, 2e-2)])
def test_products_err_by_a_small_part(how: Any, relative: float) -> None:
    random = np.random.default_rng(1)
    arrays = BoundedArrays(PLAIN)
    arrays.arithmetic = how
    a, b = (Bounded(arrays, random.standard_normal(shape)) for shape in ((8, 512), (512, 8)))
    bound = (a @ b).bound
    size = np.sqrt((a.value**2) @ (b.value**2))
    assert (bound > 0).all() and (bound < relative * size).all()


def _in_f32(terms: Any, parts: int) -> Any:
    """Add terms up along the last axis in f32, in so many running sums, which are then added in pairs."""
    sums = [np.zeros(terms.shape[:-1], np.float32)] * parts
    for place in range(terms.shape[-1]):
        sums[place % parts] = sums[place % parts] + terms[..., place].astype(np.float32)
    while len(sums) > 1:
        sums = [a + b for a, b in zip(sums[::2], sums[1::2], strict=True)]
    return sums[0]


def _numbers(shape: Any, repeated: float) -> Any:
    """Draw numbers of f32, of each row this share equal."""
    random: Any = np.random.default_rng(0)
    terms: Any = PLAIN.round_to(random.standard_normal(shape), "f32")
    np.copyto(terms, terms[..., :1].copy(), where=random.random(shape) < repeated)
    return terms


@pytest.mark.parametrize("repeated", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("count", [20, 72, 1000])
def test_sums_of_equal_terms_are_right_in_any_order(count: int, repeated: float) -> None:
    terms = _numbers((400, count), repeated)
    for kind, factor in (("sum", 1.0), ("mean", 1 / count)):
        found = ARRAYS.reduce(kind, ARRAYS.of(terms.reshape(400, 2, count // 2)), (1, -1)) * 3.0
        for order, parts in itertools.product((terms, np.sort(terms), np.sort(-terms) * -1), (1, 2, 8, 32)):
            made = _in_f32(order, parts) * np.float32(factor) * np.float32(3)
            assert (np.abs(made.astype(np.float64) - found.value) <= found.bound).all(), (kind, parts)


@pytest.mark.parametrize("shape", [(6, 100), (2, 3, 40), (5, 8), (0, 40), (100,)])
def test_sums_lose_in_torch_what_they_lose_in_numpy(shape: tuple[int, ...]) -> None:
    torch: Any = pytest.importorskip("torch", reason="needs torch")
    from mucc.dialects.mu.arrays import TorchArrays

    terms: Any = _numbers(shape, 0.6) * (np.arange(shape[-1]) % 3)
    for roundoff, over in ((sum_roundoff, shape[:-1]), (running_roundoff, shape)):
        found = roundoff(PLAIN, terms)
        other = roundoff(TorchArrays("cpu"), torch.from_numpy(terms))
        assert found.shape == over and np.allclose(found, other.numpy(), 1e-12, 0)


@pytest.mark.parametrize("repeated", [0.9, 1.0])
def test_running_sums_of_equal_terms_are_right(repeated: float) -> None:
    terms = _numbers((400, 72), repeated).T
    found = ARRAYS.xp.cumsum(ARRAYS.of(terms), 0)
    made = np.cumsum(terms.astype(np.float32), 0, dtype=np.float32)
    assert (np.abs(made.astype(np.float64) - found.value) <= found.bound).all()
    first = found.bound[7] / np.cumsum(np.abs(terms), 0)[7]
    assert (first < 2.0**-23 * 3.2).all(), "what comes later does not count"


@pytest.mark.parametrize(
    "terms",
    [_numbers((8, 1024), 0.0), np.full((8, 1024), -2.0), np.zeros((8, 1024)), np.full((8, 8), 0.1)],
    ids=["different", "few bits", "zeros", "few"],
)
def test_sums_of_different_or_few_bits_keep_their_narrow_bounds(terms: Any) -> None:
    found = ARRAYS.reduce("sum", ARRAYS.of(terms), (1,))
    size = np.abs(terms).sum(1)
    assert (found.bound <= 2.0**-23 * ((2.01 + terms.shape[1] ** 0.5 / 8) * size + np.abs(found.value))).all()


def test_positions_of_exact_values_are_exact() -> None:
    x = ARRAYS.of(np.array([3.0, 1.0, 2.0]))
    values, places = sorted_along(ARRAYS, x, 0, descending=True, count=2)
    assert values.value.tolist() == [3, 2] and places.value.tolist() == [0, 2]
    assert not places.bound.any() and not values.bound.any()
    near = sorted_along(ARRAYS, around(x.value, 0.1), 0, descending=False, count=None)[1]
    assert near.value.tolist() == [1, 2, 0] and near.bound.all()


def test_values_of_a_constant_are_replaced() -> None:
    frame = ARRAYS.full((4,), 0.0)
    frame[(slice(1, 3),)] = around(np.array([2.0, 3.0]), 0.5)
    assert frame.bound.tolist() == [0, 1, 1.5, 0]
    assert (frame + frame).value.tolist() == [0, 4, 6, 0]
