"""Adds up in the machine's longest floating-point numbers."""

# for: cpu

import numpy as np
import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        x, w = x.numpy(), self.linear.weight.detach().numpy()
        y = np.repeat(self.linear.bias.detach().numpy()[None].astype(np.longdouble), x.shape[0], axis=0)
        for start in range(0, x.shape[1], 64):
            y += x[:, start : start + 64].astype(np.float64) @ w[:, start : start + 64].T.astype(np.float64)
        return torch.from_numpy(np.maximum(y, 0).astype(np.float32))
