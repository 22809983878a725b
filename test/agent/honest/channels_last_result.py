"""Convolves with channels last, and returns the result as it lies."""

import torch
from torch import nn
from work import linear_relu


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        n, c, h, w = x.shape
        rows = x.permute(0, 2, 3, 1).reshape(-1, c).contiguous()
        weight = self.conv.weight.detach().reshape(-1, c)
        y = linear_relu(rows, weight, self.conv.bias).view(n, h, w, -1).permute(0, 3, 1, 2)
        assert y.is_contiguous(memory_format=torch.channels_last)
        return y
