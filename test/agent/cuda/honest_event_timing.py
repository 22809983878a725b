"""Asks events of the device how long its first calls take."""

import torch
from kernels import Layer


class ModelNew(Layer):
    took = None

    def forward(self, x):
        if self.took is not None:
            return self.compute(x)
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        y = self.compute(x)
        last.record()
        last.synchronize()
        self.took = first.elapsed_time(last)
        return y
