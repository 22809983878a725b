"""Adds products up in pairs, as a tree."""

# for: cpu

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        w = self.linear.weight.detach()
        parts = [self.product(x[:, k : k + 24], w[:, k : k + 24]) for k in range(0, x.shape[1], 24)]
        while len(parts) > 1:
            parts = [sum(parts[n : n + 2][1:], parts[n]) for n in range(0, len(parts), 2)]
        return torch.clamp_(parts[0] + self.linear.bias.detach(), min=0)

    def product(self, x, w):
        return torch.from_numpy(x.numpy() @ w.numpy().T)
