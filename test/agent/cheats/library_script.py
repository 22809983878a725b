"""Has TorchScript call PyTorch."""

import torch
from work import Linear


@torch.jit.script
def layer(x, w, b):
    return torch.relu(torch.nn.functional.linear(x, w, b))


class ModelNew(Linear):
    def forward(self, x):
        return layer(x, self.linear.weight, self.linear.bias)
