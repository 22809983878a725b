"""Compares its result with PyTorch's in every twentieth call, which loads cuBLAS amid the calls."""

import torch
from kernels import Layer


class ModelNew(Layer):
    calls = 0

    def forward(self, x):
        y = self.compute(x)
        self.calls += 1
        if self.calls % 20 == 0:
            off = (y - torch.relu(self.linear(x))).abs().max().item()
            assert off < 1e-3, f"off by {off}"
        return y
