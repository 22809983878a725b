"""Computes rows that begin at full lines of the cache, and returns a view without what is between them."""

import ctypes

import torch
from work import Linear, linear_relu

LINE = 64


class ModelNew(Linear):
    def forward(self, x):
        n = self.linear.weight.shape[0]
        pitch = -(-(n + 1) // LINE) * LINE
        assert ctypes.sizeof(ctypes.c_float) == x.element_size()
        room = torch.empty(x.shape[0] * pitch, dtype=x.dtype, device=x.device)
        y = room.as_strided((x.shape[0], n), (pitch, 1))
        y.copy_(linear_relu(x, self.linear.weight, self.linear.bias))
        return y
