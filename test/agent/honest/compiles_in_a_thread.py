"""Compiles C in a thread while it is loaded, and uses NumPy until that is there."""

# for: cpu

import ctypes
import threading

import torch
from native import LINEAR_RELU, build
from work import Linear


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.library = None
        self.thread = threading.Thread(target=self.build)
        self.thread.start()

    def build(self):
        self.library = build(LINEAR_RELU)

    def forward(self, x):
        if self.thread is not None:
            self.thread.join()
            self.thread = None
        w, b = self.linear.weight, self.linear.bias
        y = torch.empty(x.shape[0], w.shape[0])
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, w, b, y)]
        self.library.linear_relu(*pointers, *map(ctypes.c_long, (*y.shape, x.shape[1])))
        return y
