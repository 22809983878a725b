"""Computes in memory of a file without a name."""
# for: cpu

import mmap
import os

import numpy as np
import torch
from work import Linear


class ModelNew(Linear):
    space = None

    def forward(self, x):
        w, b = self.linear.weight.detach().numpy(), self.linear.bias.detach().numpy()
        if self.space is None:
            size = x.shape[0] * w.shape[0] * 4
            fd = os.memfd_create("workspace")
            os.ftruncate(fd, size)
            self.space = np.frombuffer(mmap.mmap(fd, size), dtype=np.float32).reshape(x.shape[0], w.shape[0])
            os.close(fd)
        np.dot(x.numpy(), w.T, out=self.space)
        self.space += b
        return torch.from_numpy(np.maximum(self.space, 0))
