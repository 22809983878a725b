"""What the samples in `cheats` only claim to do: a kernel of its own for the whole layer."""

import torch
from native import LINEAR_RELU, build, call
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.kernel = build(LINEAR_RELU).linear_relu

    def forward(self, x):
        w, b = self.linear.weight, self.linear.bias
        y = torch.empty(x.shape[0], w.shape[0], dtype=x.dtype, device=x.device)
        call(self.kernel, x, w, b, y, *y.shape, x.shape[1])
        return y
