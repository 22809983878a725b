"""The type rules: what each gives, and the code and words of every refusal."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from builders import tensor
from xdsl.dialects.builtin import bf16, f16, f32, i1
from xdsl.ir import Attribute

from mucc.dialects.mu import rules
from mucc.dialects.mu.rules import TypeRuleError
from mucc.dialects.mu.types import Dims, LayoutAttr

T = tensor


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([], ()),
        ([("M", "N"), ("N",)], ("M", "N")),
        ([("M", 1), (1, "N")], ("M", "N")),
        ([(), ("M",)], ("M",)),
        ([("B", 1, "N"), ("M", 1), ("N",)], ("B", "M", "N")),
        ([(4, 1), (1, 8)], (4, 8)),
        ([(1,), (1, 1)], (1, 1)),
    ],
)
def test_broadcast(shapes: list[Dims], expected: Dims) -> None:
    assert rules.broadcast(shapes) == expected


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ((T("M", dtype="bf16"), T("M", dtype="bf16")), T("M", dtype="bf16")),
        ((T("M", dtype="bf16"), T("M", dtype="f16")), T("M")),
        ((T("M", dtype="bf16"), T("M")), T("M")),
        # Nothing of rank 0 widens a tensor.
        ((T("M", dtype="bf16"), f32), T("M", dtype="bf16")),
        ((T("M", dtype="f16"), T()), T("M", dtype="f16")),
        ((T(dtype="bf16"), f32), T(dtype="bf16")),
        ((T(dtype="bf16"), T()), T()),
        ((f32, f32), f32),
        ((bf16, f16), f32),
        # A result is stored row-major, whatever the operands are.
        ((T("M", "N", layout=LayoutAttr.col_major()), f32), T("M", "N")),
    ],
)
def test_arithmetic(operands: tuple[Attribute, ...], expected: Attribute) -> None:
    assert rules.elementwise(operands) == expected


def test_comparison_selection_conversion() -> None:
    condition = T("M", dtype="bool")
    assert rules.compare(T("M", dtype="bf16"), T(1)) == condition
    assert rules.compare(f32, f32) == i1
    assert rules.logical([condition, i1]) == condition
    assert rules.select(condition, T("N", "M", dtype="bf16"), f32) == T("N", "M", dtype="bf16")
    assert rules.select(T("N", 1, dtype="bool"), f32, f32) == T("N", 1)
    assert rules.cast(T("M", "N", layout=LayoutAttr.col_major()), f16) == T("M", "N", dtype="f16")
    assert rules.cast(i1, f32) == f32
    assert rules.stored(T("M", "N", layout=LayoutAttr.col_major())) == T("M", "N")


def test_contraction() -> None:
    assert rules.matmul(T("M", "K"), T("K", "N")) == T("M", "N")
    assert rules.matmul(T("B", 1, "M", "K"), T("H", "K", "N")) == T("B", "H", "M", "N")
    assert rules.matmul(T("M", 1, dtype="bf16"), T(1, "N", dtype="bf16")) == T("M", "N", dtype="bf16")


def test_views() -> None:
    assert rules.transpose(T("M", "N")) == T("N", "M", layout=LayoutAttr.col_major())
    assert rules.transpose(rules.transpose(T("B", "M", "N"))) == T("B", "M", "N")
    strided = T("B", "M", "N", layout=LayoutAttr.strided((None, 8, 1)))
    assert rules.transpose(strided) == T("B", "N", "M", layout=LayoutAttr.strided((None, 1, 8)))
    assert rules.expand(T("M"), [1, 0]) == T(1, 1, "M")
    assert rules.expand(f32, [0]) == T(1)
    assert rules.broadcast_to(T("M", 1), ("B", "M", "N")) == T("B", "M", "N")


def test_reduction() -> None:
    assert rules.normalise_axes(None, 3) == (0, 1, 2)
    assert rules.normalise_axes((-1, 0), 3) == (0, 2)
    assert rules.reduce(T("M", "N", dtype="bf16"), (1,)) == T("M")
    assert rules.reduce(T("M", "N"), (0, 1)) == T()


@pytest.mark.parametrize(
    ("rule", "code", "message", "helps"),
    [
        (
            lambda: rules.elementwise((T("M", "N"), T("M"))),
            "MU1020",
            "shapes [M, N] and [M] do not broadcast: N is not M",
            ("a vector per row needs a new axis: write `v[:, None]`",),
        ),
        (
            lambda: rules.elementwise((T("M", 4), T("M", 8), f32)),
            "MU1020",
            "shapes [M, 4] and [M, 8] do not broadcast: 4 is not 8",
            (),
        ),
        (
            lambda: rules.broadcast_to(T("M"), ("N",)),
            "MU1020",
            "shapes [M] and [N] do not broadcast: M is not N",
            ("a vector per row needs a new axis: write `v[:, None]`",),
        ),
        (
            lambda: rules.broadcast_to(T("M"), (1,)),
            "MU1020",
            "f32[M] does not broadcast to [1]",
            (),
        ),
        (
            lambda: rules.elementwise((T("M", dtype="bool"), f32)),
            "MU1021",
            "arithmetic on a bool",
            ("use `where(condition, a, b)` or `cast(condition, f32)`",),
        ),
        (
            lambda: rules.select(i1, T("M", dtype="bool"), T("M")),
            "MU1021",
            "arithmetic on a bool",
            ("use `where(condition, a, b)` or `cast(condition, f32)`",),
        ),
        (
            lambda: rules.compare(i1, f32),
            "MU1021",
            "arithmetic on a bool",
            ("use `where(condition, a, b)` or `cast(condition, f32)`",),
        ),
        (
            lambda: rules.reduce(T("M", dtype="bool"), (0,)),
            "MU1021",
            "reduction of a bool",
            ("count with `sum(cast(condition, f32))`",),
        ),
        (
            lambda: rules.logical((T("M", dtype="bf16"),)),
            "MU1022",
            "expected a bool, got bf16[M]",
            ("compare first, for example `x > 0`",),
        ),
        (
            lambda: rules.matmul(T("K"), T("K", "N")),
            "MU1023",
            "the left operand of @ needs at least two axes, got f32[K]",
            (
                "make a matrix of a vector: `(w @ v[:, None])[:, 0]` or `(v[None, :] @ w)[0]`; "
                "of two vectors write `sum(a * b)`",
            ),
        ),
        (
            lambda: rules.matmul(T("M", "K"), f32),
            "MU1023",
            "the right operand of @ needs at least two axes, got f32[]",
            (
                "make a matrix of a vector: `(w @ v[:, None])[:, 0]` or `(v[None, :] @ w)[0]`; "
                "of two vectors write `sum(a * b)`",
            ),
        ),
        (
            lambda: rules.matmul(T("M", "K"), T("N", "K")),
            "MU1024",
            "inner extents of @ differ: [M, K] @ [N, K] has K against N",
            ("the right operand has the inner extent last: transpose it with `.T`",),
        ),
        (
            lambda: rules.matmul(T("K", "M"), T("K", "N")),
            "MU1024",
            "inner extents of @ differ: [K, M] @ [K, N] has M against K",
            ("the left operand has the inner extent first: transpose it with `.T`",),
        ),
        (
            lambda: rules.matmul(T("M", 4), T(8, "N")),
            "MU1024",
            "inner extents of @ differ: [M, 4] @ [8, N] has 4 against 8",
            (),
        ),
        (
            lambda: rules.matmul(T("M", "K", dtype="bf16"), T("K", "N", dtype="f16")),
            "MU1025",
            "operands of @ have dtypes bf16 and f16, but both must have the same one",
            ("convert one: `cast(..., bf16)`",),
        ),
        (
            lambda: rules.matmul(T("B", "M", "K"), T("C", "K", "N")),
            "MU1026",
            "batch extents of @ differ: [B, M, K] @ [C, K, N]",
            (),
        ),
        (
            lambda: rules.transpose(T("M")),
            "MU1027",
            "`.T` needs at least two axes, got f32[M]",
            ("a vector has no transpose; `v[:, None]` makes it a column",),
        ),
        (lambda: rules.normalise_axes((2,), 2), "MU1028", "axis 2 is out of range for 2 axes", ()),
        (lambda: rules.normalise_axes((-3,), 2), "MU1028", "axis -3 is out of range for 2 axes", ()),
        (lambda: rules.normalise_axes((1, -1), 2), "MU1028", "axis given twice in (1, -1)", ()),
        (lambda: rules.stored(T("M", dtype="bool")), "MU1017", "a bool cannot be stored", ()),
    ],
)
def test_refusals(rule: Callable[[], object], code: str, message: str, helps: tuple[str, ...]) -> None:
    with pytest.raises(TypeRuleError) as caught:
        rule()
    assert (caught.value.code, caught.value.message, caught.value.helps) == (code, message, helps)
