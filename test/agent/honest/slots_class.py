"""Has slots instead of a dictionary."""

import torch
from work import linear_relu


class ModelNew:
    __slots__ = ("b", "w")

    def __init__(self, inputs, outputs):
        made = torch.nn.Linear(inputs, outputs)
        self.w, self.b = made.weight.detach(), made.bias.detach()

    def __call__(self, x):
        return linear_relu(x, self.w.to(x.device), self.b.to(x.device))
