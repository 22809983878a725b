"""Computes in NumPy, and returns the array by DLPack."""

# for: cpu

import numpy as np
import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        array = np.from_dlpack(x)
        w, b = self.linear.weight.detach().numpy(), self.linear.bias.detach().numpy()
        return torch.from_dlpack(np.maximum(array @ w.T + b, 0))
