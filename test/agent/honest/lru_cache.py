"""Has functools keep what it finds out about shapes."""

from functools import lru_cache

from work import Linear


@lru_cache
def rows_of(shape):
    return shape[0]


class ModelNew(Linear):
    def forward(self, x):
        return self.compute(x, rows=rows_of(x.shape))
