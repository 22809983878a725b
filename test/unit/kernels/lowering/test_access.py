"""Along which axes pointwise work walks through tensors."""

from __future__ import annotations

import pytest
from builders import access, last_stage, strided

from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Dims, LayoutAttr
from mucc.kernels.lowering.access import (
    Axes,
    accesses,
    identity,
)

COL, ROW_MAJOR = LayoutAttr.col_major(), LayoutAttr.row_major()


@pytest.mark.parametrize(
    ("dims", "layout", "axes", "unit"),
    [
        (("M", "N"), ROW_MAJOR, (0, 1), 1),
        (("M", "N"), COL, (0, 1), 0),
        (("M", "N"), ROW_MAJOR, (1, 0), 0),
        # An axis of extent 1 does not come between neighbours.
        (("M", 1), ROW_MAJOR, (0, None), 0),
        ((1, "M"), COL, (None, 1), 1),
        (("B", "M", 1), COL, (0, 1, None), 1),
        ((1, 1), ROW_MAJOR, (None, None), None),
        (("M", "N"), strided(None, 1), (0, 1), 1),
        (("M", "N"), strided(1, None), (0, 1), 0),
        (("M", "N"), strided(None, None), (0, 1), None),
        (("M",), strided(2), (0,), None),
    ],
)
def test_unit_axis(dims: Dims, layout: LayoutAttr, axes: Axes, unit: int | None) -> None:
    assert access(dims, axes, layout).unit_axis == unit


def test_identity() -> None:
    assert identity(("B", 1, "N")) == (0, None, 2)


def seen(stage: StageOp) -> dict[str | None, Axes]:
    """What a stage's pointwise work loads, by parameter."""
    return {a.base.name_hint: a.axes for a in accesses(stage)}


def test_accesses_look_through_views_and_broadcasts() -> None:
    found = last_stage(
        """kernel k[B, M, N, K](x: bf16[B, M, K], w: bf16[B, K, N], b: f32[N], c: f32[B, M], d: f32[N, M],
                              e: f32[1, M], s: f32) -> bf16[B, M, N] {
            return (x @ w + b + c[:, :, None] + d.T + e.T) * s
        }"""
    )
    assert seen(found) == {"b": (2,), "c": (0, 1), "d": (2, 1), "e": (None, 1), "s": ()}
