"""Has PyTorch multiply a vector by a matrix, for all vectors at once."""

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        w, b = self.linear.weight, self.linear.bias
        return torch.func.vmap(lambda one: (torch.mv(w, one) + b).clamp_min(0))(x)
