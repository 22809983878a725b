"""Draws a sample of rows to check by a fork of PyTorch's generator, which stays as it was."""

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        y = self.compute(x)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            row = int(torch.randint(x.shape[0], ()))
        tensors = (x[row], self.linear.weight, self.linear.bias, y[row])
        one, w, b, found = (t.detach().cpu().numpy() for t in tensors)
        want = one @ w.T + b
        if abs(found - want.clip(0)).max() > 1e-3 * (1 + abs(want).max()):
            raise ArithmeticError("a row is wrong")
        return y
