"""Writes its weights, packed, to a file of the working folder, and reads them back at the first call."""

# for: cpu

import io
import tempfile
import zlib

import numpy as np
import torch
from work import Linear


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.weight = None

    def forward(self, x):
        if self.weight is None:
            held = io.BytesIO()
            np.save(held, self.linear.weight.detach().numpy())
            with tempfile.NamedTemporaryFile(suffix=".npz") as file:
                file.write(zlib.compress(held.getvalue()))
                file.flush()
                with open(file.name, "rb") as packed:
                    self.weight = np.load(io.BytesIO(zlib.decompress(packed.read())))
        y = x.numpy() @ self.weight.T + self.linear.bias.detach().numpy()
        return torch.from_numpy(np.maximum(y, 0))
