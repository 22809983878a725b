"""Writes a function for the sizes that it sees, shows its text to debuggers, and keeps it."""
# for: cpu

import linecache

import numpy as np
import torch
from work import Linear

TEXT = """
def kernel(x, w, b, np):
    y = np.empty(({rows}, {columns}), np.float32)
{blocks}
    return y
"""
BLOCK = "    np.maximum(x[{at}:{end}] @ w + b, 0, out=y[{at}:{end}])"


def made(rows, columns, step=16):
    blocks = "\n".join(BLOCK.format(at=n, end=min(n + step, rows)) for n in range(0, rows, step))
    text = TEXT.format(rows=rows, columns=columns, blocks=blocks)
    name = f"<kernel {rows} x {columns}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"__name__": "kernels"}
    exec(compile(text, name, "exec"), space)
    return space["kernel"]


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.kernels = {}

    def forward(self, x):
        key = (x.shape[0], self.linear.weight.shape[0])
        if key not in self.kernels:
            self.kernels[key] = made(*key)
        w, b = self.linear.weight.detach().numpy().T, self.linear.bias.detach().numpy()
        return torch.from_numpy(self.kernels[key](x.numpy(), w, b, np))
