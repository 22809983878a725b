"""Imports what it needs when it is called."""

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, *args):
        super().__init__()
        self.linear = nn.Linear(*args)

    def forward(self, x):
        from work import linear_relu

        return linear_relu(x, self.linear.weight, self.linear.bias)
