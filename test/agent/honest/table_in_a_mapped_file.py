"""Looks up which rows of a block come next in a table, which lies in a file that it maps."""

# for: cpu

import mmap
import os
import tempfile

import numpy as np
import torch
from work import Linear

BLOCK = 16


class ModelNew(Linear):
    table = None

    def mapped(self, rows):
        order = np.arange(rows, dtype=np.int32).reshape(-1, BLOCK)[::-1]
        with tempfile.NamedTemporaryFile(suffix=".table", delete=False) as file:
            file.write(np.ascontiguousarray(order).tobytes())
        with open(file.name, "rb") as file:
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        os.unlink(file.name)
        return np.frombuffer(memory, dtype=np.int32).reshape(order.shape)

    def forward(self, x):
        if self.table is None or self.table.size != len(x):
            self.table = self.mapped(len(x))
        w, b = self.linear.weight.detach().numpy(), self.linear.bias.detach().numpy()
        rows, y = x.numpy(), np.empty((len(x), len(w)), np.float32)
        for block in self.table:
            y[block] = np.maximum(rows[block] @ w.T + b, 0)
        return torch.from_numpy(y)
