"""Keeps intermediate sums in a file of the working folder that is mapped into memory."""

# for: cpu

import tempfile

import numpy as np
import torch
from work import Linear


class ModelNew(Linear):
    sums = None

    def forward(self, x):
        shape = x.shape[0], self.linear.out_features
        if self.sums is None:
            with tempfile.TemporaryFile() as file:
                self.sums = np.memmap(file, dtype=np.float32, mode="w+", shape=shape)
        np.matmul(x.numpy(), self.linear.weight.detach().numpy().T, out=self.sums)
        y = self.sums + self.linear.bias.detach().numpy()
        return torch.from_numpy(np.asarray(np.maximum(y, 0)))
