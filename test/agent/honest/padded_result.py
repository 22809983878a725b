"""Computes into a larger piece of memory, and returns a part of it."""

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        y = torch.empty(x.shape[0] + 8, self.linear.weight.shape[0], device=x.device)
        return self.compute(x, y, rows=x.shape[0])[: x.shape[0]]
