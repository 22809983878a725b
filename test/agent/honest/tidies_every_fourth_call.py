"""Collects garbage and drops its spare workspace every fourth call."""

import gc

import torch
from work import Linear


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.spare = []

    def forward(self, x):
        self.calls += 1
        self.spare.append(torch.empty(x.shape[0], self.linear.out_features, device=x.device))
        if self.calls % 4 == 0:
            self.spare.clear()
            gc.collect()
        return self.compute(x)
