"""Computes with NumPy in the memory of tensors."""

# for: cpu

import numpy as np
import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        y = torch.empty(x.shape[0], self.linear.weight.shape[0])
        np.matmul(x.numpy(), self.linear.weight.detach().numpy().T, out=y.numpy())
        y.numpy()[...] += self.linear.bias.detach().numpy()
        np.maximum(y.numpy(), 0, out=y.numpy())
        return y
