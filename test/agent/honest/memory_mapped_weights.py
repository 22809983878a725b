"""Keeps its packed weights in a file that is mapped to memory."""

import os
import tempfile

import numpy as np
import torch
from work import Linear, linear_relu


class ModelNew(Linear):
    packed = None

    def pack(self):
        path = os.path.join(tempfile.mkdtemp(), "weights.npy")
        np.save(path, self.linear.weight.detach().cpu().numpy())
        return torch.from_numpy(np.load(path, mmap_mode="c"))

    def forward(self, x):
        if self.packed is None:
            self.packed = self.pack().to(x.device)
        return linear_relu(x, self.packed, self.linear.bias)
