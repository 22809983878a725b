"""Has cuBLAS multiply, past PyTorch."""

import ctypes

import torch
from kernels import Layer


class ModelNew(Layer):
    handle = None

    def forward(self, x):
        if self.handle is None:
            name = "libcublas.so.12" if torch.version.cuda < "13" else "libcublas.so.13"
            self.blas, self.handle = ctypes.CDLL(name), ctypes.c_void_p()
            self.blas.cublasCreate_v2(ctypes.byref(self.handle))
        y, w = self.room(x), self.linear.weight
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        (m, k), n = x.shape, w.shape[0]
        place = [ctypes.c_void_p(t.data_ptr()) for t in (w, x, y)]
        self.blas.cublasSgemm_v2(
            self.handle, 1, 0, n, m, k, ctypes.byref(one), place[0], k, place[1], k, ctypes.byref(zero), place[2], n
        )
        return y.add_(self.linear.bias).relu_()
