"""Allocates its results in a pool of memory of its own."""

import torch
from kernels import Layer


class ModelNew(Layer):
    pool = None

    def forward(self, x):
        self.pool = self.pool or torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(self.pool):
            return self.compute(x)
