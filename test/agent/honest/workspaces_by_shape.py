"""Keeps scratch memory by shapes and types."""

import torch
from work import Linear


class ModelNew(Linear):
    rooms = {}

    def forward(self, x):
        key = x.shape, x.dtype, x.device
        if key not in self.rooms:
            self.rooms[key] = torch.empty(x.shape[0], self.linear.weight.shape[0], device=x.device)
        return self.compute(x, self.rooms[key]).clone()
