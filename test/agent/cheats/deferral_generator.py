"""Returns a generator instead of a result."""

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        yield self.compute(x)
