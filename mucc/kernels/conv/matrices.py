"""Tiles of products by wgmma that convolutions by windows of one element with channels first are."""

from __future__ import annotations

import math

from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.wide import WideTile, best_tile, wide_cycles
from mucc.target.facts import Facts

CHUNK = 64
"""Positions of an element of the batch that TMA copies as one: 128 bytes."""

FORMATS = ("bf16", "f16")
"""The formats whose rows wgmma takes innermost."""


def refused(layer: Layer) -> str | None:
    """Return why wgmma and TMA do not take x of a layer where it lies, as a clause; None if they do."""
    if layer.compute not in FORMATS:
        return f"wgmma takes rows innermost of {' and '.join(FORMATS)} only"
    if layer.transposed or any(w.size > 1 or w.stride > 1 or w.pad for w in layer.windows):
        return "windows are no single elements at each position of x"
    if not layer.matrices:
        return "positions of a channel of x are not adjacent, or no multiple of 16 bytes"
    return "tiles have positions of several elements of the batch" if layer.measured else None


def padded(layer: Layer) -> Layer:
    """Return a layer whose rows are whole chunks of each element of the batch."""
    places = math.prod(layer.places)
    return layer._replace(rows=layer.rows // places * math.ceil(places / CHUNK) * CHUNK)


def best_matrix_tile(layer: Layer, facts: Facts) -> WideTile:
    """Return the tile that should be fastest."""
    return best_tile(padded(layer), facts)


def matrix_cycles(tile: WideTile, layer: Layer, facts: Facts) -> float:
    """Estimate the cycles that one multiprocessor would take alone for a layer, by tiles of this size."""
    return wide_cycles(tile, padded(layer), facts)
