"""Switches NumPy's warnings off around its work, and chunks for its buffers on."""

# for: cpu

import numpy as np
import torch
from work import Linear

np.seterr(under="ignore")


class ModelNew(Linear):
    def forward(self, x):
        with np.errstate(all="ignore"):
            before = np.setbufsize(16384)
            y = x.numpy() @ self.linear.weight.detach().numpy().T + self.linear.bias.detach().numpy()
            np.setbufsize(before)
            return torch.from_numpy(np.where(y > 0, y, np.float32(0)))
