"""Computes block by block."""

import torch
from work import Linear, linear_relu


class ModelNew(Linear):
    def forward(self, x):
        y = torch.empty(x.shape[0], self.linear.weight.shape[0], device=x.device)
        for start in range(0, x.shape[0], 16):
            linear_relu(x[start : start + 16], self.linear.weight, self.linear.bias, y[start : start + 16])
        return y
