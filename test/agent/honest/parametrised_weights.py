"""Has its weights computed by a parametrisation of PyTorch's, once: then they are cached."""

import torch
from torch.nn.utils import parametrize
from work import Linear, linear_relu


class InRows(torch.nn.Module):
    def forward(self, weight):
        return weight.contiguous()

    def right_inverse(self, weight):
        return weight


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        parametrize.register_parametrization(self.linear, "weight", InRows())

    def forward(self, x):
        with parametrize.cached():
            return linear_relu(x, self.linear.weight.detach(), self.linear.bias)
