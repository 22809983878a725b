"""A layer whose results have names."""

import torch
from torch import nn

batch_size, inputs, outputs = 64, 192, 96


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        y = torch.relu(self.linear(x))
        return {"hidden": y, "pooled": (y.sum(1), {"largest": y.amax(1)})}


def get_inputs():
    return [torch.rand(batch_size, inputs)]


def get_init_inputs():
    return [inputs, outputs]
