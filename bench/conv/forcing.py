"""Build convolutions by a strategy or a tile that the compiler did not choose, to compare them."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

from mucc.kernels.conv import direct_emission, lower, wide_emission
from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.op import Strategy
from mucc.kernels.conv.strategies import WAYS
from mucc.kernels.conv.strips import StripTile
from mucc.kernels.conv.wide import WideTile
from mucc.target.facts import Facts


@contextlib.contextmanager
def forced(strategy: Strategy) -> Generator[None]:
    """Compile convolutions by a strategy where it is legal, and as usual elsewhere."""
    usual = lower.choose
    (way,) = (way for way in WAYS if way.strategy is strategy)

    def choose(layer: Layer, facts: Facts) -> Strategy:
        return usual(layer, facts) if way.refused(layer, facts) else strategy

    lower.choose = choose
    try:
        yield
    finally:
        lower.choose = usual


@contextlib.contextmanager
def forced_tile(tile: WideTile) -> Generator[None]:
    """Compile convolutions by warpgroups with tiles of this size, where that is legal."""
    usual = wide_emission.best_tile

    def best(layer: Layer, facts: Facts) -> WideTile:
        return tile

    wide_emission.best_tile = best
    try:
        with forced(Strategy.WARPGROUPS):
            yield
    finally:
        wide_emission.best_tile = usual


@contextlib.contextmanager
def forced_strip(tile: StripTile) -> Generator[None]:
    """Compile depthwise convolutions by strips with tiles of this size."""
    usual = direct_emission.best_strip

    def best(*_: object) -> StripTile:
        return tile

    direct_emission.best_strip = best
    try:
        with forced(Strategy.DIRECT):
            yield
    finally:
        direct_emission.best_strip = usual
