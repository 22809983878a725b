"""Values computed of weights: kept while these are the same; a normalisation folded into weights is exact."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

torch: Any = pytest.importorskip("torch", reason="needs torch")
F = torch.nn.functional

from mucc.runtime.prepared import Prepared, folded_norm  # noqa: E402


class Doubled:
    """The double of a weight, and how often it was computed."""

    def __init__(self) -> None:
        self.prepared, self.count = Prepared(), 0

    def __call__(self, weight: Any) -> Any:
        def compute() -> Any:
            self.count += 1
            return weight.detach() * 2

        value = self.prepared.get([weight], compute)
        assert torch.equal(value, weight * 2)
        return value


def in_place(weight: Any) -> Any:
    with torch.no_grad():
        weight.add_(1)
    return weight


def optimised(weight: Any) -> Any:
    weight.grad = torch.ones_like(weight)
    torch.optim.SGD([weight], 0.1).step()
    return weight


def assigned(weight: Any) -> Any:
    weight.data = torch.rand(4, 4)
    return weight


def turned(weight: Any) -> Any:
    weight.data = weight.data.T
    return weight


def same_memory(weight: Any) -> Any:
    return torch.nn.Parameter(weight.data)


CHANGES = (in_place, optimised, assigned, turned, same_memory)


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_is_computed_again(change: Callable[[Any], Any]):
    double, weight = Doubled(), torch.nn.Parameter(torch.rand(4, 4))
    assert double(weight) is double(weight) and double.count == 1
    weight = change(weight)
    double(weight)
    assert double.count == 2
    double(weight)
    assert double.count == 2


def test_memory_that_is_used_again_is_no_old_weight():
    double, weight = Doubled(), torch.nn.Parameter(torch.rand(4, 4))
    double(weight)
    place = weight.data_ptr()
    weight.data = torch.zeros(1)
    others = [torch.rand(4, 4) for _ in range(64)]
    assert place not in [o.data_ptr() for o in others]
    weight.data = others[0]
    double(weight)


def test_values_are_dropped_on_request():
    double, weight = Doubled(), torch.nn.Parameter(torch.rand(4, 4))
    double(weight)
    weight.data.zero_()
    double.prepared.clear()
    double(weight)


def test_tensors_whose_changes_are_not_counted_are_never_kept():
    with torch.inference_mode():
        weight, double = torch.rand(4, 4), Doubled()
        double(weight)
        weight.zero_()
        double(weight)
    assert double.count == 2


def test_copies_keep_nothing():
    double, weight = Doubled(), torch.nn.Parameter(torch.rand(4, 4))
    double(weight)
    for copied in (copy.deepcopy(double), pickle.loads(pickle.dumps(double))):
        copied(weight)
        assert copied.count == 2


EPS = 1e-3


@st.composite
def products(draw: st.DrawFn) -> tuple[Callable[..., Any], Any, Any, int, int]:
    """A product of x, weights and bias; x, weights, the axis of channels in these, and groups."""
    kind = draw(st.sampled_from(("linear", "conv", "transposed")))
    outputs, inputs, groups = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    random = torch.Generator().manual_seed(draw(st.integers(0, 1000)))

    def rand(*shape: int) -> Any:
        return torch.randn(shape, dtype=torch.float64, generator=random)

    if kind == "linear":
        return F.linear, rand(5, inputs), rand(outputs, inputs), 0, 1
    rank, stride, window = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    name = f"conv{'_transpose' if kind == 'transposed' else ''}{rank}d"
    function = getattr(F, name)
    x = rand(2, inputs * groups, *[5] * rank)
    transposed = kind == "transposed"
    shape = (inputs * groups, outputs) if transposed else (outputs * groups, inputs)

    def product(x: Any, w: Any, b: Any) -> Any:
        return function(x, w, b, stride=stride, padding=min(1, window // 2), groups=groups)

    return product, x, rand(*shape, *[window] * rank), int(transposed), groups


@settings(max_examples=examples(30), deadline=None)
@given(products(), st.booleans(), st.booleans(), st.integers(0, 1000))
def test_a_folded_normalisation_is_the_same_function(
    drawn: tuple[Callable[..., Any], Any, Any, int, int], biased: bool, affine: bool, seed: int
):
    product, x, w, axis, groups = drawn
    random = torch.Generator().manual_seed(seed)
    plain = product(x, w, None)

    def vector() -> Any:
        return torch.randn(plain.shape[1], dtype=torch.float64, generator=random)

    bias, mean, var = vector() if biased else None, vector(), vector().abs()
    gamma, beta = (vector(), vector()) if affine else (None, None)
    expected = F.batch_norm(product(x, w, bias), mean, var, gamma, beta, eps=EPS)
    weights, shift = folded_norm(w, bias, mean, var, gamma, beta, EPS, axis, groups)
    torch.testing.assert_close(product(x, weights, shift), expected, rtol=1e-10, atol=1e-10)
    w = w.float()
    bias, mean, var, gamma, beta = (None if t is None else t.float() for t in (bias, mean, var, gamma, beta))
    narrow = folded_norm(w, bias, mean, var, gamma, beta, EPS, axis, groups)
    exact = folded_norm(w.double(), bias, mean, var, gamma, beta, EPS, axis, groups)
    for got, want in zip(narrow, exact, strict=True):
        assert got.dtype == torch.float32
        assert ((got.double() - want).abs() <= 2.0**-24 * want.abs()).all()
