"""Has PyTorch take one thread while a call runs, and as many as before afterwards."""

import contextlib

import torch
from work import Linear


@contextlib.contextmanager
def threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class ModelNew(Linear):
    def forward(self, x):
        with threads(1):
            return self.compute(x)
