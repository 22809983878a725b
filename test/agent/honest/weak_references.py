"""Keeps its workspace for as long as the input lives."""

import weakref

import torch
from work import Linear


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.rooms = weakref.WeakKeyDictionary()

    def forward(self, x):
        if x not in self.rooms:
            self.rooms[x] = torch.empty(x.shape[0], self.linear.weight.shape[0], device=x.device)
        return self.compute(x, self.rooms[x])
