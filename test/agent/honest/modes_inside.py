"""Counts what is called within a call, by modes that it leaves again."""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from work import Linear


class Functions(TorchFunctionMode):
    count = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        Functions.count += 1
        return func(*args, **(kwargs or {}))


class Operations(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        Operations.count += 1
        return func(*args, **(kwargs or {}))


class ModelNew(Linear):
    def forward(self, x):
        with Functions(), Operations():
            y = torch.empty(x.shape[0], self.linear.weight.shape[0])
        return self.compute(x, y)
