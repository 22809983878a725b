"""Takes a tenth of a second on the GPU for a call."""

import torch
from kernels import Layer, read


class ModelNew(Layer):
    sums = None

    def forward(self, x):
        if self.sums is None:
            self.sums = torch.empty(16 * 1024, device=x.device)
        read(self.linear.weight, self.sums, times=8000)
        return self.compute(x)
