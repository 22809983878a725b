"""Is made of modules within modules."""

from torch import nn
from work import linear_relu


class Inner(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return linear_relu(x, self.linear.weight, self.linear.bias)


class ModelNew(nn.Module):
    def __init__(self, *args):
        super().__init__()
        self.inner = Inner(*args)

    def forward(self, x):
        return self.inner(x)
