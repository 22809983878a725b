"""Returns results in pages that it has asked the system for, large ones where there are any."""

# for: cpu

import mmap

import numpy as np
import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        w, b = self.linear.weight.detach().numpy(), self.linear.bias.detach().numpy()
        pages = mmap.mmap(-1, max(4 * x.shape[0] * w.shape[0], mmap.PAGESIZE))
        if hasattr(mmap, "MADV_HUGEPAGE"):
            pages.madvise(mmap.MADV_HUGEPAGE)
        y = np.frombuffer(pages, dtype=np.float32, count=x.shape[0] * w.shape[0]).reshape(x.shape[0], -1)
        np.maximum(x.numpy() @ w.T + b, 0, out=y)
        return torch.from_numpy(y)
