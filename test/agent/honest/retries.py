"""Tries again where the machine has no memory, which is not the case."""

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        for attempt in range(3):
            try:
                return self.compute(x)
            except MemoryError:
                if attempt == 2:
                    raise
