"""Copies inputs that are not contiguous."""

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        return self.compute(x if x.is_contiguous() else x.contiguous())
