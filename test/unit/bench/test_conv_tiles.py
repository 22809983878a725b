"""The benchmark of tiles of convolutions: programs, forced tiles, and what a choice loses."""

from __future__ import annotations

import json
import re

import pytest

from bench.common import RESULTS
from bench.conv import tiles
from bench.conv.forcing import forced_tile
from bench.conv.tiles import LAYERS, Try, layer_of, losses, tiles_of, tries
from bench.gpu_fuzz.varying import drawn_tile
from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.kernels.conv.layer import Layer, layer_of_kernel
from mucc.kernels.conv.op import ConvKernelOp
from mucc.kernels.conv.wide import WideTile, best_tile, wide_cycles
from mucc.target import get_target
from mucc.target.facts import Facts


def test_each_try_has_a_name_of_its_own_and_the_chosen_tile_comes_first() -> None:
    found = list(tries(32, "", ""))
    assert len({one.name for one in found}) == len(found)
    facts = get_target("sm_90a").facts
    for conv, adds in LAYERS.values():
        first, *rest = tiles_of(conv, adds)
        layer = layer_of(conv, adds)
        assert all(wide_cycles(first, layer, facts) <= wide_cycles(tile, layer, facts) for tile in rest[:4])


@pytest.mark.parametrize("layer", ["4_expand", "5_3x3"])
def test_a_program_has_the_forced_tile_and_the_layer_that_is_judged(layer: str) -> None:
    conv, adds = LAYERS[layer]
    tile = WideTile(128, 64, 3, 2, is_persistent=True)
    with forced_tile(tile):
        compilation = compile_text(Source("k.mcu", Try(layer, conv, adds, tile).text))
        assert re.search(r"WideShape<128, 64, 3, 2, 1, true, true>", compilation.cu())
    (kernel,) = (op for p in compilation.programs for op in p.kernels)
    assert isinstance(kernel, ConvKernelOp)
    judged, meant = layer_of_kernel(kernel, {}), layer_of(conv, adds)
    for name in ("rows", "channels", "outputs", "taps", "element_bytes", "behind"):
        assert getattr(judged, name) == getattr(meant, name), name


def test_a_choice_loses_what_the_fastest_measured_tile_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = WideTile(128, 64, 4, 2), WideTile(128, 128, 3, 2)
    rows = [
        {"layer": "4_expand", "batch": 32, "tile": list(small), "us": 10.0},
        {"layer": "4_expand", "batch": 32, "tile": list(large), "us": 8.0},
    ]

    def narrow(tile: WideTile, layer: Layer, facts: Facts) -> float:
        return tile.columns

    def wide(tile: WideTile, layer: Layer, facts: Facts) -> float:
        return -tile.columns

    monkeypatch.setattr(tiles, "wide_cycles", narrow)
    assert losses(rows) == {"4_expand": ("128x64", pytest.approx(0.2))}
    monkeypatch.setattr(tiles, "wide_cycles", wide)
    assert losses(rows) == {"4_expand": ("128x128", 0.0)}


def test_the_model_chooses_well_among_measured_tiles() -> None:
    rows = json.loads((RESULTS / "h100_sxm" / "conv_tiles.json").read_text())["rows"]
    found = losses(rows)
    assert set(found) == set(LAYERS)
    assert max(loss for _, loss in found.values()) <= 0.05


def test_the_best_tile_is_a_measured_one() -> None:
    """Of no layer does the model prefer a tile that was never measured."""
    rows = json.loads((RESULTS / "h100_sxm" / "conv_tiles.json").read_text())["rows"]
    facts = get_target("sm_90a").facts
    for name, (conv, adds) in LAYERS.items():
        measured = [row["tile"] for row in rows if row["layer"] == name]
        assert list(best_tile(layer_of(conv, adds), facts)) in measured, name


def test_three_blocks_with_two_stages_pay_where_sums_are_short() -> None:
    """In a U-Net at batch 8: 123 and 105 us for the way up, 141 and 148 us for 3x3 (H100)."""
    facts = get_target("sm_90a").facts
    up = Layer(8 * 4 * 128**2, 128, 64, 1, 1, "bf16", 2, True, 4 * 8 * 256**2 * 64, classes=4, behind=2)
    first = Layer(8 * 256**2, 64, 64, 1, 9, "bf16", 2, True, 4 * 8 * 256**2 * 64)
    two, three = WideTile(128, 64, 4, 2), WideTile(128, 64, 2, 3)
    assert wide_cycles(three, up, facts) < wide_cycles(two, up, facts)
    assert wide_cycles(three, first, facts) > wide_cycles(two, first, facts)


def test_fuzzing_draws_tiles_that_are_legal() -> None:
    """Where channels are reduced a block has all of them, and of K too where moments are stored."""
    facts, layer = get_target("sm_90a").facts, layer_of(*LAYERS["2_expand"])
    drawn = {drawn_tile(layer._replace(rows=rows), facts) for rows in range(128, 128 * 60, 128)}
    assert {tile.is_persistent for tile in drawn} == {False, True}
    assert len(drawn) > 15
    for rows in range(128, 128 * 20, 128):
        reduced = drawn_tile(layer._replace(rows=rows, reduced=True), facts)
        assert reduced.columns == 256 and reduced.shares == 1
        assert drawn_tile(layer._replace(rows=rows, measured=True), facts).shares == 1
