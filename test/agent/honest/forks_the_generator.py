"""Draws a sample of rows to check by a fork of PyTorch's generator, which stays as it was."""

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        y = self.compute(x)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            row = int(torch.randint(x.shape[0], ()))
        want = x[row].numpy() @ self.linear.weight.detach().numpy().T + self.linear.bias.detach().numpy()
        if abs(y[row].numpy() - want.clip(0)).max() > 1e-3 * (1 + abs(want).max()):
            raise ArithmeticError("a row is wrong")
        return y
