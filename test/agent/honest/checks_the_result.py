"""Looks whether its result is finite."""

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        y = self.compute(x)
        if not torch.isfinite(y).all():
            raise ArithmeticError("not finite")
        return y
