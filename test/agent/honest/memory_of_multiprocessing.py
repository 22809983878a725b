"""Takes an array of multiprocessing, with its lock, for intermediate results."""
# for: cpu

import multiprocessing

import numpy as np
import torch
from work import Linear


class ModelNew(Linear):
    shared = None

    def forward(self, x):
        w, b = self.linear.weight.detach().numpy(), self.linear.bias.detach().numpy()
        if self.shared is None:
            self.shared = multiprocessing.Array("f", x.shape[0] * w.shape[0])
        with self.shared.get_lock():
            y = np.frombuffer(self.shared.get_obj(), np.float32).reshape(x.shape[0], w.shape[0])
            np.dot(x.numpy(), w.T, out=y)
            return torch.from_numpy(np.maximum(y + b, 0))
