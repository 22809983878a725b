"""Keeps its workspace for as long as the input lives."""

import weakref

import torch
from work import Linear


class ModelNew(Linear):
    owner = room = None

    def forward(self, x):
        if self.owner is None or self.owner() is not x:
            self.owner = weakref.ref(x)
            self.room = torch.empty(x.shape[0], self.linear.weight.shape[0], device=x.device)
        return self.compute(x, self.room)
