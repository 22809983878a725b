"""Divides rows among the threads of a pool."""

from concurrent.futures import ThreadPoolExecutor

import torch
from work import Linear, linear_relu

pool = ThreadPoolExecutor(2)


class ModelNew(Linear):
    def forward(self, x):
        y = torch.empty(x.shape[0], self.linear.weight.shape[0], device=x.device)
        w, b = self.linear.weight, self.linear.bias
        parts = zip(x.chunk(2), y.chunk(2), strict=True)
        list(pool.map(lambda part: linear_relu(part[0], w, b, part[1]), parts))
        return y
