"""Tiles of convolutions that read patches: what they read, and that they fit."""

from __future__ import annotations

import math

import pytest

from mucc.dialects.mu.windows import Window
from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.patches import SHORTEST, best_patch, patch_cycles, patch_tiles, reach
from mucc.target import get_target

FACTS = get_target("sm_90a").facts


def layer(
    channels: int,
    outputs: int,
    windows: tuple[Window, ...],
    places: tuple[int, ...],
    *,
    transposed: bool = False,
) -> Layer:
    classes = math.prod(w.stride for w in windows) if transposed else 1
    taps = math.prod(w.size for w in windows) / classes
    rows = 4 * math.prod(places)
    moved = 4 * rows * (channels + outputs)
    return Layer(
        rows,
        channels,
        outputs,
        1,
        taps,
        "tf32",
        4,
        channels % 4 == 0,
        moved,
        classes,
        windows,
        places,
        transposed,
    )


@pytest.mark.parametrize("pad", [0, 1, 3])
@pytest.mark.parametrize(
    ("size", "stride", "dilation"), [(3, 2, 1), (4, 2, 1), (3, 5, 2), (2, 4, 2), (7, 1, 3)]
)
def test_reaches_hold_what_each_output_reads(size: int, stride: int, dilation: int, pad: int) -> None:
    window = Window(size, stride, pad, dilation)
    dense = reach(window, transposed=False)
    assert (dense.lowest, dense.highest, dense.step) == (-pad, dilation * (size - 1) - pad, stride)
    found = reach(window, transposed=True)
    assert sum(found.taps) == size and len(found.taps) == stride
    for output in range(4 * stride):
        first = output // stride
        for tap in range(size):
            index, rest = divmod(output + pad - tap * dilation, stride)
            if rest == 0:
                assert found.lowest <= index - first <= found.highest


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("channels", [1, 3, 40, 300])
def test_tiles_fit_the_multiprocessor(channels: int, transposed: bool) -> None:
    windows = (Window(3, 2, 1), Window(3, 2, 1), Window(5, 2, 2))
    given = layer(channels, 24, windows, (18, 30, 62), transposed=transposed)
    for along in (False, True):
        tiles = list(patch_tiles(given, FACTS, along))
        assert tiles
        for tile in tiles:
            assert tile.shared <= FACTS.limits.shared_memory
            assert tile.together * (tile.shared + 1024) <= FACTS.multiprocessor.shared_memory
            assert tile.is_whole == (tile.chunk == channels)
            assert tile.is_whole or not tile.is_resident
        best = best_patch(given, FACTS, along=along)
        assert best is not None
        cycles = patch_cycles(best, given, FACTS)
        assert all(cycles <= patch_cycles(tile, given, FACTS) for tile in tiles)


@pytest.mark.parametrize(("width", "least"), [(5, 8), (14, 16), (100, SHORTEST)])
def test_lines_of_tiles_are_as_long_as_results_allow(width: int, least: int) -> None:
    given = layer(3, 64, (Window(3, 1, 1), Window(3, 1, 1)), (width, width))
    assert {tile.places[2] >= least for tile in patch_tiles(given, FACTS, along=False)} == {True}


def test_layers_of_too_many_classes_have_no_tiles() -> None:
    given = layer(8, 8, (Window(7, 6), Window(7, 6)), (60, 60), transposed=True)
    assert best_patch(given, FACTS, along=False) is None
