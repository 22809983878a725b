"""Calls PyTorch's operators by their names."""

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        aten = torch.ops.aten
        return aten.relu(aten.addmm(self.linear.bias, x, aten.t(self.linear.weight)))
