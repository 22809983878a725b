"""Computes with NumPy's sums, in float64."""

# for: cpu

import numpy as np
import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        w, b = (t.detach().numpy().astype(np.float64) for t in (self.linear.weight, self.linear.bias))
        return torch.from_numpy(np.maximum(x.numpy() @ w.T + b, 0).astype(np.float32))
