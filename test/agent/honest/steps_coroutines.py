"""Coroutines and asynchronous generators that it steps through by itself."""
# for: cpu

import numpy as np
import torch
from work import Linear


async def blocks(x):
    for n in range(0, x.shape[0], 32):
        yield n, x[n : n + 32]


async def layer(x, w, b, y):
    async for n, block in blocks(x):
        np.maximum(block @ w.T + b, 0, out=y[n : n + len(block)])
    return y


class ModelNew(Linear):
    def forward(self, x):
        w, b = self.linear.weight.detach().numpy(), self.linear.bias.detach().numpy()
        steps = layer(x.numpy(), w, b, np.empty((x.shape[0], w.shape[0]), np.float32))
        try:
            while True:
                steps.send(None)
        except StopIteration as end:
            return torch.from_numpy(end.value)
