"""Finds the shape of its result by tensors without memory, and checks it in each call."""

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        with torch.device("meta"):
            made = torch.nn.Linear(*reversed(self.linear.weight.shape))
            shape = made(torch.empty(x.shape)).shape
        y = torch.empty(shape, dtype=x.dtype, device=x.device)
        return self.compute(x, y)
