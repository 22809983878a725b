"""Times its blocks when it is imported, on numbers of the sizes that it is made for, and keeps the best."""

# for: cpu

import time

import numpy as np
import torch
from work import Linear

CHOICES = 16, 32, 64
ROWS, INPUTS, OUTPUTS = 64, 192, 96


def product(x, w, rows):
    return np.concatenate([x[at : at + rows] @ w.T for at in range(0, len(x), rows)])


def seconds(rows):
    x, w = np.ones((ROWS, INPUTS), np.float32), np.ones((OUTPUTS, INPUTS), np.float32)
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        product(x, w, rows)
        best = min(best, time.perf_counter() - started)
    return best


BEST = min(CHOICES, key=seconds)


class ModelNew(Linear):
    def forward(self, x):
        w, b = self.linear.weight.detach().numpy(), self.linear.bias.detach().numpy()
        return torch.from_numpy(np.maximum(product(x.numpy(), w, BEST) + b, 0))
