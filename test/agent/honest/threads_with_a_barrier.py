"""Keeps two threads for all calls, which meet at barriers before and after each."""

import threading

import numpy as np
import torch
from work import Linear


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.begin, self.end = threading.Barrier(3), threading.Barrier(3)
        self.job = None
        for n in range(2):
            threading.Thread(target=self.serve, args=(n,), daemon=True).start()

    def serve(self, n):
        while True:
            self.begin.wait()
            x, w, b, y = self.job
            rows = slice(n, None, 2)
            y[rows] = np.maximum(x[rows] @ w.T + b, 0)
            self.end.wait()

    def forward(self, x):
        w, b = self.linear.weight.detach().numpy(), self.linear.bias.detach().numpy()
        y = np.empty((x.shape[0], w.shape[0]), dtype=np.float32)
        self.job = x.numpy(), w, b, y
        self.begin.wait()
        self.end.wait()
        self.job = None
        return torch.from_numpy(y)
