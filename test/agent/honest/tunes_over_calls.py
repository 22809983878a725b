"""Tries another block in each of its first six calls, and takes the fastest from then on."""

import time

import torch
from work import Linear, linear_relu

BLOCKS = (8, 16, 32, 8, 16, 32)


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.took = {}
        self.block = None

    def forward(self, x):
        if self.block is not None:
            return self.blocked(x, self.block)
        block = BLOCKS[self.calls]
        self.calls += 1
        started = time.perf_counter()
        y = self.blocked(x, block)
        self.took[block] = min(time.perf_counter() - started, self.took.get(block, 1.0))
        if self.calls == len(BLOCKS):
            self.block = min(self.took, key=self.took.get)
        return y

    def blocked(self, x, block):
        w, b = self.linear.weight, self.linear.bias
        y = torch.empty(x.shape[0], w.shape[0], device=x.device)
        for start in range(0, x.shape[0], block):
            linear_relu(x[start : start + block], w, b, y[start : start + block])
        return y
