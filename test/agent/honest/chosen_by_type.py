"""Chooses an implementation by the type of its argument and by a pattern of its shape."""

from functools import singledispatchmethod

import torch
from work import Linear


class ModelNew(Linear):
    @singledispatchmethod
    def run(self, x):
        raise TypeError(type(x).__name__)

    @run.register
    def _(self, x: torch.Tensor):
        match x.shape:
            case (rows, _) if rows > 0:
                return self.compute(x)
            case (columns,):
                return self.compute(x.view(1, columns))[0]

    def forward(self, x):
        return self.run(x)
