"""Warns once."""

import warnings

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        warnings.warn("this kernel is young", stacklevel=2)
        return self.compute(x)
