"""A problem file that raises."""

import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_init_inputs():
    return []


def get_inputs():
    return [torch.rand(4, 4).reshape(3, 5)]
