"""Keeps its weights in buffers."""

from torch import nn
from work import linear_relu


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        made = nn.Linear(inputs, outputs)
        self.register_buffer("w", made.weight.detach().clone())
        self.register_buffer("b", made.bias.detach().clone())

    def forward(self, x):
        return linear_relu(x, self.w, self.b)
