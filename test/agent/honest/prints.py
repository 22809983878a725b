"""Prints something in each call."""

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        print("rows:", x.shape[0])
        return self.compute(x)
