"""Computes columns of the result by parts of the weights."""

import torch
from work import Linear, linear_relu


class ModelNew(Linear):
    def forward(self, x):
        w, b = self.linear.weight.chunk(2), self.linear.bias.chunk(2)
        return torch.cat([linear_relu(x, w[n].contiguous(), b[n].contiguous()) for n in range(2)], dim=1)
