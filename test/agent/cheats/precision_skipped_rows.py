"""Leaves out the last row."""

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        y = torch.zeros(x.shape[0], self.linear.weight.shape[0], device=x.device)
        return self.compute(x, y, rows=x.shape[0] - 1)
