"""Labels its parts for PyTorch's profiler, whether that runs or not."""

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        with torch.profiler.record_function("linear_relu"), torch.autograd.profiler.record_function("rows"):
            return self.compute(x)
