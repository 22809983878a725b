"""A problem file that prints."""

import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_init_inputs():
    return []


for _ in range(10**9):
    print("all work and no play")
