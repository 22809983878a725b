"""A problem file that allocates."""

import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_init_inputs():
    return []


table = [bytes(1 << 24) for _ in range(10**6)]
