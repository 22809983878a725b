"""No module: an object that can be called, with weights made in the same order."""

import torch
from work import linear_relu


class ModelNew:
    def __init__(self, inputs, outputs):
        self.linear = torch.nn.Linear(inputs, outputs)

    def __call__(self, x):
        self.linear.to(x.device)
        return linear_relu(x, self.linear.weight, self.linear.bias)
