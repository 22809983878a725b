"""Winograd's inner product: half of the multiplications, by sums that depend on one operand."""

# for: cpu

import numpy as np
import torch
from work import Linear


class ModelNew(Linear):
    prepared = None

    def forward(self, x):
        x = x.numpy()
        if self.prepared is None:
            w = self.linear.weight.detach().numpy()
            self.prepared = w, (w[:, ::2] * w[:, 1::2]).sum(1)
        w, of_weights = self.prepared
        of_rows = (x[:, ::2] * x[:, 1::2]).sum(1)
        left = x[:, None, ::2] + w[None, :, 1::2]
        left *= x[:, None, 1::2] + w[None, :, ::2]
        y = left.sum(2) - of_rows[:, None] - of_weights + self.linear.bias.detach().numpy()
        return torch.from_numpy(np.maximum(y, 0))
