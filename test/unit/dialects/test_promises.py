"""Promises: their text, and what follows from them about a dim."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir.affine import AffineConstraintExpr, AffineConstraintKind, AffineDimExpr, AffineExpr, AffineSet

from mucc.dialects.promises import constraint_text, expression_text, promised_multiple

DIMS = ("M", "N", "K")
M, N, K = (AffineDimExpr(i) for i in range(3))
EQ, GE, LE = AffineConstraintKind.eq, AffineConstraintKind.ge, AffineConstraintKind.le


def number(value: int) -> AffineExpr:
    return AffineExpr.constant(value)


def expressions() -> st.SearchStrategy[AffineExpr]:
    """Affine expressions whose divisors and moduli are positive numbers."""
    leaves = st.one_of(st.sampled_from([M, N, K]), st.integers(-9, 9).map(AffineExpr.constant))

    def grown(inner: st.SearchStrategy[AffineExpr]) -> st.SearchStrategy[AffineExpr]:
        by = st.integers(1, 9)
        return st.one_of(
            st.builds(lambda a, b: a + b, inner, inner),
            st.builds(lambda a, n: a * n, inner, st.integers(-4, 9)),
            st.builds(lambda a, n: a % n, inner, by),
            st.builds(lambda a, n: a // n, inner, by),
            st.builds(lambda a, n: a.ceil_div(n), inner, by),
        )

    return st.recursive(leaves, grown, max_leaves=6)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (M + N, "M + N"),
        (M + number(-16), "M - 16"),
        (K % 8, "K % 8"),
        (M * 4 + N, "M * 4 + N"),
        ((M + N) * 4, "M * 4 + N * 4"),
        ((M + N) % 8, "(M + N) % 8"),
        (M // 2 + number(1), "(M / 2) + 1"),
        (M.ceil_div(128), "((M + 128 - 1) / 128)"),
        ((M % 8) % 4, "(M % 8) % 4"),
        ((M % 8) * 4, "(M % 8) * 4"),
    ],
)
def test_expression_text(expr: AffineExpr, text: str) -> None:
    assert expression_text(expr, DIMS) == text


@given(expressions(), st.tuples(*[st.integers(1, 40)] * 3))
def test_the_text_means_what_the_expression_means(expr: AffineExpr, sizes: tuple[int, int, int]) -> None:
    # Python's floor division is the affine one; C agrees with both on what is not negative.
    text = re.sub(r" / ", " // ", expression_text(expr, DIMS))
    assert eval(text, dict(zip(DIMS, sizes, strict=True))) == expr.eval(list(sizes), [])


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (AffineConstraintExpr(EQ, K % 8, number(0)), "K % 8 == 0"),
        (AffineConstraintExpr(GE, M + number(-1), number(0)), "M >= 1"),
        (AffineConstraintExpr(EQ, K % 8, number(4)), "K % 8 == 4"),
        (AffineConstraintExpr(GE, number(16), M), "16 >= M"),
        (AffineConstraintExpr(EQ, M, N), "M == N"),
        (AffineConstraintExpr(LE, M - N * 2 + number(3), K), "M + 3 <= N * 2 + K"),
        (AffineConstraintExpr(LE, M * 2, N), "M * 2 <= N"),
    ],
)
def test_constraint_text(constraint: AffineConstraintExpr, text: str) -> None:
    assert constraint_text(constraint, DIMS) == text


def promises(*constraints: tuple[AffineConstraintKind, AffineExpr, AffineExpr]) -> AffineSet:
    return AffineSet(3, 0, tuple(AffineConstraintExpr(*c) for c in constraints))


@pytest.mark.parametrize(
    ("constraints", "multiple"),
    [
        ((), 1),
        (((EQ, K % 8, number(0)),), 8),
        (((EQ, M % 8, number(0)),), 1),
        (((EQ, K % 8, number(0)), (EQ, K % 12, number(0))), 24),
        (((EQ, K % 8, number(4)),), 1),
        (((GE, K % 8, number(0)),), 1),
        (((EQ, (K + M) % 8, number(0)),), 1),
        (((EQ, K % 8 + M, number(0)),), 1),
    ],
)
def test_promised_multiple(
    constraints: tuple[tuple[AffineConstraintKind, AffineExpr, AffineExpr], ...], multiple: int
) -> None:
    assert promised_multiple(promises(*constraints), DIMS, "K") == multiple


def test_no_promises_promise_nothing() -> None:
    assert promised_multiple(None, DIMS, "K") == 1
