"""Returns whole numbers and flags beside a tensor, of PyTorch and of Python."""

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        y = self.compute(x)
        sizes = torch.tensor([*y.shape], dtype=torch.int32, device=x.device)
        flags = torch.empty(y.shape[0], dtype=torch.bool, device=x.device).fill_(True)
        return y, sizes, flags, len(y)
