"""Splits its operands into two numbers of 12 digits each, whose products are exact, and adds all four."""

# for: cpu

import numpy as np
import torch
from work import Linear


def split(a):
    wide = a * np.float32(4097)
    high = wide - (wide - a)
    return high, a - high


class ModelNew(Linear):
    def forward(self, x):
        (x1, x2), (w1, w2) = split(x.numpy()), split(self.linear.weight.detach().numpy())
        y = x2 @ w2.T
        y += x1 @ w2.T + x2 @ w1.T
        y += x1 @ w1.T
        y += self.linear.bias.detach().numpy()
        return torch.from_numpy(np.maximum(y, 0, out=y))
