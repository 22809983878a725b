"""Calls the BLAS that NumPy has brought along, without NumPy."""

# for: cpu

import ctypes
import glob
import os

import numpy as np
import torch
from work import Linear

FOLDERS = [os.path.join(os.path.dirname(np.__file__), *more) for more in ((".libs",), ("..", "numpy.libs"))]
ROWS, AS_IT_IS, TRANSPOSED = 101, 111, 112


def found():
    for path in (p for folder in FOLDERS for p in glob.glob(os.path.join(folder, "*openblas*"))):
        library = ctypes.CDLL(path)
        for name in ("scipy_cblas_sgemm64_", "cblas_sgemm64_", "cblas_sgemm"):
            if hasattr(library, name):
                return getattr(library, name), ctypes.c_int64 if "64" in name else ctypes.c_int
    return None, None


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.gemm, self.size = found()

    def forward(self, x):
        if self.gemm is None:
            return self.compute(x)
        w, b = self.linear.weight, self.linear.bias
        (m, k), n = x.shape, w.shape[0]
        y = np.tile(b.detach().numpy(), (m, 1))
        size, one = self.size, ctypes.c_float(1)
        place = ctypes.c_void_p
        self.gemm(
            *(ROWS, AS_IT_IS, TRANSPOSED, size(m), size(n), size(k), one, place(x.data_ptr()), size(k)),
            *(place(w.data_ptr()), size(k), one, place(y.ctypes.data), size(n)),
        )
        return torch.from_numpy(np.maximum(y, 0, out=y))
