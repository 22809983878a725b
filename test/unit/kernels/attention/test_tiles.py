"""Tiles of attention kernels on wgmma."""

from __future__ import annotations

import itertools

import pytest

from mucc.kernels.attention.tiles import warpgroup_tile_of

MOST = 227 << 10
"""Bytes of shared memory that a block may have on Hopper."""


@pytest.mark.parametrize(
    "widths", list(itertools.product((16, 64, 80, 128, 136, 192, 256), repeat=2)), ids=str
)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("plain", [False, True], ids=["computed", "plain"])
def test_two_steps_or_more_fit_shared_memory(widths: tuple[int, int], causal: bool, plain: bool) -> None:
    tile = warpgroup_tile_of(*widths, causal=causal, plain=plain)
    row, result_row = (128 * -(-w // 64) for w in widths)
    assert 2048 + tile.rows * row + tile.stages * tile.columns * (row + result_row) <= MOST
    assert 2 <= tile.stages <= 4
    assert tile.rows == 64 * tile.warps // 4


def test_short_steps_have_more_of_them() -> None:
    short, wide = (warpgroup_tile_of(w, w, causal=True, plain=True) for w in (64, 128))
    assert (short.stages, wide.stages) == (4, 2)
