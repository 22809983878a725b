"""Ends with an operation in place on its own result."""

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        y = self.compute(x)
        y.abs_()
        return y
