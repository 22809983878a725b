"""Computes block by block from a generator."""

import torch
from work import Linear, linear_relu


class ModelNew(Linear):
    def forward(self, x):
        return torch.cat(list(self.blocks(x)))

    def blocks(self, x):
        for part in x.split(24):
            yield linear_relu(part, self.linear.weight, self.linear.bias)
