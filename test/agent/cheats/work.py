"""What the samples beside this file do when they do the work: relu(x @ w.T + b), without PyTorch.

On a CPU by NumPy; on a GPU by a kernel of `work.cu`, built into `linear_relu.so` beside this file.
"""

import ctypes
from pathlib import Path

import numpy as np
import torch
from torch import nn


def linear_relu(x, w, b, y=None, rows=None):
    """Compute the first rows of y, all where no number is given; the others stay as they are."""
    y = torch.empty(x.shape[0], w.shape[0], dtype=x.dtype, device=x.device) if y is None else y
    rows = x.shape[0] if rows is None else rows
    if x.is_cuda:
        _on_gpu(x, w, b, y, rows)
    else:
        exact = x.detach().numpy()[:rows] @ w.detach().numpy().T + b.detach().numpy()
        np.maximum(exact, 0, out=y.numpy()[:rows])
    return y


def _on_gpu(x, w, b, y, rows):
    pointers = (ctypes.c_void_p(t.data_ptr()) for t in (x, w, b, y))
    sizes = (ctypes.c_int(n) for n in (rows, w.shape[0], w.shape[1]))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    library().linear_relu(*pointers, *sizes, stream)


def library():
    """The kernels for a GPU."""
    return ctypes.CDLL(str(Path(__file__).with_name("linear_relu.so")))


class Linear(nn.Module):
    """The layer with its weights; `compute` does its work."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.calls = 0

    def compute(self, x, y=None, rows=None):
        return linear_relu(x, self.linear.weight, self.linear.bias, y, rows)

    def forward(self, x):
        return self.compute(x)
