"""Lays its result out in a `bytearray`, by a memory view."""

# for: cpu

import numpy as np
import torch
from work import Linear, linear_relu


class ModelNew(Linear):
    def forward(self, x):
        m, n = x.shape[0], self.linear.out_features
        held = bytearray(4 * m * n)
        with memoryview(held) as view:
            y = np.frombuffer(view.cast("f"), dtype=np.float32).reshape(m, n)
            y[:] = linear_relu(x, self.linear.weight, self.linear.bias).numpy()
            del y
        return torch.frombuffer(held, dtype=torch.float32).view(m, n)
