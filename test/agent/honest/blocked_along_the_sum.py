"""Adds partial products of blocks along the sum in one buffer, in place."""

# for: cpu

import numpy as np
import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        a, w = x.numpy(), self.linear.weight.detach().numpy()
        y = np.broadcast_to(self.linear.bias.detach().numpy(), (a.shape[0], w.shape[0])).copy()
        scratch = np.empty_like(y)
        for start in range(0, a.shape[1], 32):
            np.matmul(a[:, start : start + 32], w[:, start : start + 32].T, out=scratch)
            y += scratch
        return torch.from_numpy(np.clip(y, 0, None, out=y))
