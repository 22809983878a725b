"""Keeps its settings in a data class and a named tuple."""

from collections import namedtuple
from dataclasses import dataclass

from work import Linear

Tile = namedtuple("Tile", "rows columns")


@dataclass(frozen=True)
class Settings:
    tile: Tile | None = None


class ModelNew(Linear):
    settings = Settings()
