"""Writes into a result that the caller may give, by NumPy's functions with `out`."""

# for: cpu

import numpy as np
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    @torch.inference_mode()
    def forward(self, x, out=None):
        if out is None:
            out = torch.empty((x.size(0), self.linear.out_features), dtype=x.dtype, device=x.device)
        y = out.numpy()
        np.matmul(x.numpy(), self.linear.weight.numpy().T, out=y)
        np.add(y, self.linear.bias.numpy(), out=y)
        np.maximum(y, 0, out=y)
        return out
