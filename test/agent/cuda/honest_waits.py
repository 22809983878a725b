"""Waits for the device before it returns."""

import torch
from kernels import Layer


class ModelNew(Layer):
    def forward(self, x):
        y = self.compute(x)
        torch.cuda.synchronize()
        return y
