"""Force random legal strategies and tiles of convolutions, and partial moments for norms behind them."""

from __future__ import annotations

from mucc.files.digest import digest
from mucc.kernels.conv import lower, moments, wide_emission
from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.op import Strategy
from mucc.kernels.conv.strategies import WAYS
from mucc.kernels.conv.wide import WideTile, legal_tiles
from mucc.target.facts import Facts


def drawn(layer: Layer, facts: Facts) -> Strategy:
    """Return a legal strategy, always the same one for the same layer."""
    legal = [way.strategy for way in WAYS if way.refused(layer, facts) is None]
    for rare in (Strategy.MATRICES, Strategy.PLANES, Strategy.POSITIONS):  # which fewest layers may have
        legal += [rare] * 4 * (rare in legal)
    return legal[int(digest(repr(layer))[:8], 16) % len(legal)]


def drawn_tile(layer: Layer, facts: Facts) -> WideTile:
    """Return a legal tile of warpgroups, always the same one for the same layer."""
    legal = list(legal_tiles(layer, facts))
    return legal[int(digest(repr(layer))[8:16], 16) % len(legal)]


def _drawn_for_moments(layer: Layer, facts: Facts) -> Strategy:
    """Return what `drawn` is for a layer whose tiles store moments."""
    return drawn(layer._replace(measured=True), facts)


def vary_strategies() -> None:
    """Make this process compile convolutions by drawn strategies and tiles, with moments where legal."""
    lower.choose = drawn
    wide_emission.best_tile = drawn_tile
    moments.LEAST = -(1 << 60)
    moments.MOMENT_BYTES = dict.fromkeys(Strategy, 0.0)
    moments.choose = _drawn_for_moments
