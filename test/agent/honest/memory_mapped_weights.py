"""Keeps its packed weights in a file that is mapped to memory."""

import os
import tempfile

import numpy as np
import torch
from work import Linear


class ModelNew(Linear):
    packed = None

    def pack(self):
        path = os.path.join(tempfile.mkdtemp(), "weights.npy")
        np.save(path, np.ascontiguousarray(self.linear.weight.detach().numpy().T))
        return np.load(path, mmap_mode="r")

    def forward(self, x):
        if self.packed is None:
            self.packed = self.pack()
        y = x.numpy() @ self.packed + self.linear.bias.detach().numpy()
        return torch.from_numpy(np.maximum(y, 0))
