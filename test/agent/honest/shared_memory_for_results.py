"""Computes in shared memory of `multiprocessing`, as one that hands blocks to others would."""

# for: cpu

from multiprocessing import shared_memory

import numpy as np
import torch
from work import Linear


class ModelNew(Linear):
    block = None

    def forward(self, x):
        shape = x.shape[0], self.linear.out_features
        if self.block is None:
            self.block = shared_memory.SharedMemory(create=True, size=4 * shape[0] * shape[1])
        y = np.ndarray(shape, dtype=np.float32, buffer=self.block.buf)
        np.matmul(x.numpy(), self.linear.weight.detach().numpy().T, out=y)
        return torch.from_numpy(np.maximum(y + self.linear.bias.detach().numpy(), 0))
