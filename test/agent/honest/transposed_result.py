"""Computes the transposed result, and returns a view of it."""

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        if x.is_cuda:
            return self.compute(x).t().contiguous().t()
        w, b = self.linear.weight.detach().numpy(), self.linear.bias.detach().numpy()
        return torch.from_numpy((w @ x.numpy().T + b[:, None]).clip(min=0)).t()
