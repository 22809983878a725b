"""Count the cells of a convolution's result: the parts of channels for which blocks store moments."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from mucc.dialects.mu.types import Dim
from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.patches import best_patch, reaches_of, widened
from mucc.kernels.conv.planes import best_plane
from mucc.kernels.conv.strategies import Patches, Planes
from mucc.kernels.conv.tiles import ROWS
from mucc.library.extents import multiply
from mucc.target.facts import Facts


def _outs(layer: Layer) -> tuple[int, ...]:
    """Return the outputs of the largest class along each of the kernels' axes."""
    strides = [len(r.taps) if layer.transposed else 1 for r in reaches_of(layer)]
    return tuple(math.ceil(p / s) for p, s in zip(widened(layer.places), strides, strict=True))


def box_cells(layer: Layer, tile: Sequence[int]) -> int:
    """Return the cells of a channel of one element of the batch, where tiles are boxes of this size."""
    last = len(reaches_of(layer)[2].taps) if layer.transposed else 1
    boxes = math.prod(math.ceil(o / t) for o, t in zip(_outs(layer), tile, strict=True))
    return boxes * layer.classes // last


def row_cells(layer: Layer) -> int:
    """Return the cells of a channel of one element of the batch, where tiles are runs of `ROWS` positions."""
    return math.ceil(math.prod(_outs(layer)) / ROWS) * layer.classes


def cells_of(layer: Layer, batch: Dim, facts: Facts, *, across: bool) -> Dim:
    """Return the cells of a channel that are enough for any strategy which may compute a layer.

    They are those of one element of the batch, or of all of them `across` the batch.
    """
    counts = [row_cells(layer)]
    if Planes().refused(layer, facts) is None and (plane := best_plane(layer, facts)) is not None:
        counts.append(box_cells(layer, plane.places))
    for vectors, along in itertools.product((False, True), (False, True)):
        seen = layer._replace(vectors=vectors)
        if Patches().refused(seen, facts) is None and (patch := best_patch(seen, facts, along=along)):
            counts.append(box_cells(layer, patch.places))
    return multiply([batch, max(counts)]) if across else max(counts)
