"""Computes the transposed product, and returns a result with its columns in one piece."""

# for: cpu

import numpy as np
import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        w, b = self.linear.weight.detach().numpy(), self.linear.bias.detach().numpy()
        y = w @ x.numpy().T
        y += b[:, None]
        return torch.from_numpy(np.maximum(y, 0, out=y)).t()
