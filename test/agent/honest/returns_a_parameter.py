"""Keeps its result in a parameter that needs no gradient."""

import torch
from torch import nn
from work import Linear


class ModelNew(Linear):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.out = None

    def forward(self, x):
        if self.out is None or self.out.shape[0] != x.shape[0]:
            self.out = nn.Parameter(torch.empty(x.shape[0], self.linear.weight.shape[0]), requires_grad=False)
        self.compute(x, self.out.data)
        return self.out
