"""Is off by a little more in every call."""

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        self.calls += 1
        return self.compute(x) * (1 + 1e-4 * self.calls)
