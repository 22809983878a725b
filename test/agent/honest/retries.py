"""Tries again where the machine has no memory, which is not the case."""

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        for _ in range(2):
            try:
                return self.compute(x)
            except MemoryError:
                continue
        return self.compute(x)
