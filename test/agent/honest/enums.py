"""Chooses among ways that have names."""

from enum import Enum

from work import Linear


class Way(Enum):
    ALL = "all"
    SOME = "some"


class ModelNew(Linear):
    way = Way.ALL

    def forward(self, x):
        match self.way:
            case Way.ALL:
                return self.compute(x)
            case Way.SOME:
                return self.compute(x, rows=1)
