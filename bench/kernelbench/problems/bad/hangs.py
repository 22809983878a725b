"""A problem file that hangs."""

import time

import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_init_inputs():
    return []


while True:
    time.sleep(1)
