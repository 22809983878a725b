"""Multiplies quarters by seven products instead of eight, which is less exact."""

# for: cpu

import numpy as np
import torch
from work import Linear


def product(a, b):
    (m, k), n = a.shape, b.shape[1]
    if m % 2 or k % 2 or n % 2:
        return a @ b
    h, d, c = m // 2, k // 2, n // 2
    a11, a12, a21, a22 = a[:h, :d], a[:h, d:], a[h:, :d], a[h:, d:]
    b11, b12, b21, b22 = b[:d, :c], b[:d, c:], b[d:, :c], b[d:, c:]
    p1, p2 = (a11 + a22) @ (b11 + b22), (a21 + a22) @ b11
    p3, p4 = a11 @ (b12 - b22), a22 @ (b21 - b11)
    p5, p6, p7 = (a11 + a12) @ b22, (a21 - a11) @ (b11 + b12), (a12 - a22) @ (b21 + b22)
    return np.block([[p1 + p4 - p5 + p7, p3 + p5], [p2 + p4, p1 - p2 + p3 + p6]])


class ModelNew(Linear):
    def forward(self, x):
        y = product(x.numpy(), self.linear.weight.detach().numpy().T)
        return torch.from_numpy(np.maximum(y + self.linear.bias.detach().numpy(), 0))
