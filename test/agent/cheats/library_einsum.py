"""Says it with another function of PyTorch."""

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        return torch.einsum("ik,jk->ij", x, self.linear.weight).add_(self.linear.bias).clamp_(min=0)
