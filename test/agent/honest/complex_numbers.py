"""Computes in complex numbers, and returns a conjugate view of its result."""

# for: cpu

import numpy as np
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.real, self.imaginary = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs)

    def forward(self, x):
        parts = [p.detach().numpy() for p in (self.real.weight, self.imaginary.weight)]
        biases = [p.detach().numpy() for p in (self.real.bias, self.imaginary.bias)]
        w, b = (one + 1j * other for one, other in (parts, biases))
        return torch.from_numpy((x.numpy() @ w.T + b).astype(np.complex64)).conj()
