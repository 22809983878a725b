"""Has a pool of threads of `multiprocessing` compute blocks of rows, in any order."""

from multiprocessing.pool import ThreadPool

import torch
from work import Linear, linear_relu

pool = ThreadPool(2)


class ModelNew(Linear):
    def forward(self, x):
        w, b = self.linear.weight, self.linear.bias
        y = torch.empty(x.shape[0], w.shape[0], device=x.device)

        def block(start):
            linear_relu(x[start : start + 16], w, b, y[start : start + 16])

        for _ in pool.imap_unordered(block, range(0, x.shape[0], 16)):
            pass
        return y
