"""Arithmetic of extents: its canonical form, texts and values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucc.library import extents
from mucc.library.extents import ExtentError, canonical, polynomial

NAMES = ("K", "M", "N")


def _texts(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.builds(lambda a, sign, b: f"({a}) {sign} ({b})", inner, st.sampled_from("+-*"), inner)
    divided = st.builds(lambda a, n: f"({a}) / {n}", inner, st.integers(1, 6))
    return binary | divided


TEXTS = st.recursive(st.sampled_from(NAMES) | st.integers(0, 9).map(str), _texts, max_leaves=8)
SIZES = st.fixed_dictionaries({name: st.integers(1, 50) for name in NAMES})


def exact(text: str, sizes: dict[str, int]) -> object:
    from fractions import Fraction

    names = {name: Fraction(size) for name, size in sizes.items()}
    return eval(text.replace("/ ", "/ Fraction(1) / "), {"Fraction": Fraction, **names})


@given(TEXTS, SIZES)
def test_the_canonical_form_has_the_value_of_the_text(text: str, sizes: dict[str, int]) -> None:
    want = exact(text, sizes)
    form = polynomial(text)
    assert exact(str(form.dim).replace("/", "/ "), sizes) == want
    if want == int(want):  # type: ignore[call-overload]
        assert extents.value(form.dim, sizes) == want


@given(TEXTS)
def test_the_canonical_form_is_its_own(text: str) -> None:
    form = canonical(text)
    assert form == (form if isinstance(form, int) else canonical(form))
    assert polynomial(form) == polynomial(text)


@given(TEXTS, TEXTS)
def test_equal_extents_have_equal_texts(a: str, b: str) -> None:
    assert canonical(f"({a}) + ({b})") == canonical(f"({b}) + ({a})")
    assert canonical(f"({a}) * ({b})") == canonical(f"({b}) * ({a})")
    assert canonical(f"({a}) + ({b}) - ({a})") == canonical(b)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("N + N", "2*N"),
        ("2*N/2", "N"),
        ("(K-1)/2+1", "(K+1)/2"),
        ("N - 2", "N-2"),
        ("2 - N", "2-N"),
        ("H*D", "D*H"),
        ("K/128*128", "K"),
        ("3*(N+1)-3*N", 3),
        ("K/4/32", "K/128"),
        ("3*K/6", "K/2"),
    ],
)
def test_spellings(text: str, form: int | str) -> None:
    assert canonical(text) == form


@pytest.mark.parametrize("text", ["", "K+", "(K", "K/N", "K/0", "K % 2", "2 K", "K//2", "é"])
def test_what_is_no_extent(text: str) -> None:
    with pytest.raises(ExtentError):
        canonical(text)


def test_a_remainder_is_an_error() -> None:
    assert extents.value("K/128", {"K": 256}) == 2
    with pytest.raises(ExtentError, match=r"K/128 is no whole number for K = 100"):
        extents.value("K/128", {"K": 100})


@pytest.mark.parametrize(
    ("whole", "part", "number"),
    [
        ("K", "K/128", 128),
        ("2*N+2", "N+1", 2),
        (6, 3, 2),
        ("K", "N", None),
        ("K", "2*K", None),
        ("K", 1, None),
    ],
)
def test_quotients(whole: int | str, part: int | str, number: int | None) -> None:
    assert extents.quotient(whole, part) == number
