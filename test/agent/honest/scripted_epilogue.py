"""Adds the bias and clamps by a function that TorchScript has compiled."""

# for: cpu

import torch
from work import Linear


@torch.jit.script
def epilogue(y, bias):
    for i in range(y.shape[0]):
        y[i] += bias
    return y.clamp_(min=0.0)


class ModelNew(Linear):
    def forward(self, x):
        product = torch.from_numpy(x.numpy() @ self.linear.weight.detach().numpy().T)
        return epilogue(product, self.linear.bias.detach())
