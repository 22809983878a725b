"""Has Python trace its allocations."""

import tracemalloc

from work import Linear

tracemalloc.start(1)


class ModelNew(Linear):
    def forward(self, x):
        before, _ = tracemalloc.get_traced_memory()
        y = self.compute(x)
        self.grown = tracemalloc.get_traced_memory()[0] - before
        return y
