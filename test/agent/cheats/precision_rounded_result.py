"""Keeps three digits of its results."""

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        return (self.compute(x) * 1000).round() / 1000
