"""Takes a tenth of a second on the GPU for a call."""

import torch
from kernels import Layer


class ModelNew(Layer):
    def forward(self, x):
        torch.cuda._sleep(200_000_000)  # cycles
        return self.compute(x)
