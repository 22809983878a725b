"""Starts futures, and takes their results as they come."""

from concurrent.futures import ThreadPoolExecutor, as_completed

import torch
from work import Linear, linear_relu


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.pool = ThreadPoolExecutor(3, thread_name_prefix="rows")

    def forward(self, x):
        w, b = self.linear.weight, self.linear.bias
        half = x.shape[0] // 2
        parts = {
            self.pool.submit(linear_relu, x[:half], w, b): 0,
            self.pool.submit(linear_relu, x[half:], w, b): 1,
        }
        found = [None, None]
        for future in as_completed(parts):
            found[parts[future]] = future.result()
        return torch.cat(found)
