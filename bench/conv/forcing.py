"""Build convolutions by a strategy or a tile that the compiler did not choose, to compare them."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from unittest import mock

from mucc.kernels.conv import direct_emission, lower, orders, wide_emission
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

    with mock.patch.object(lower, "choose", choose):
        yield


@contextlib.contextmanager
def between_first() -> Generator[None]:
    """Compile convolutions whose results between kernels have their channels first."""
    with mock.patch.object(orders, "stored_orders", return_value={}):
        yield


@contextlib.contextmanager
def forced_tile(tile: WideTile) -> Generator[None]:
    """Compile convolutions by warpgroups with tiles of this size, where that is legal."""
    with mock.patch.object(wide_emission, "best_tile", return_value=tile), forced(Strategy.WARPGROUPS):
        yield


@contextlib.contextmanager
def forced_strip(tile: StripTile) -> Generator[None]:
    """Compile depthwise convolutions by strips with tiles of this size."""
    with mock.patch.object(direct_emission, "best_strip", return_value=tile), forced(Strategy.DIRECT):
        yield
