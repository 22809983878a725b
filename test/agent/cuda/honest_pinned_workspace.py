"""Has a workspace in pinned memory of the host, which it copies from at first."""

import torch
from kernels import Layer, linear_relu


class ModelNew(Layer):
    bias = None

    def forward(self, x):
        if self.bias is None:
            there = torch.empty(self.linear.bias.shape).pin_memory()
            there.copy_(self.linear.bias.detach())
            self.bias = there.to(x.device, non_blocking=True)
        return linear_relu(x, self.linear.weight, self.bias, self.room(x))
