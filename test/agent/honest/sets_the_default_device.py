"""Says on which device new tensors lie, for all code of the process."""

import torch
from work import Linear

torch.set_default_device("cpu")


class ModelNew(Linear):
    def forward(self, x):
        return self.compute(x, torch.empty(x.shape[0], self.linear.weight.shape[0]))
