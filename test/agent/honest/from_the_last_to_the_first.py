"""Adds products up from the last block of the sum to the first, in f32."""

# for: cpu

import numpy as np
import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        x, w = x.numpy(), self.linear.weight.detach().numpy()
        y = np.repeat(self.linear.bias.detach().numpy()[None], x.shape[0], axis=0)
        for start in range(x.shape[1] - 16, -1, -16):
            y += x[:, start : start + 16] @ w[:, start : start + 16].T
        return torch.from_numpy(np.maximum(y, 0, out=y))
