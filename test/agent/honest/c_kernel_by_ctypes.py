"""Compiles C by the host's compiler when it is loaded, declares its arguments, and calls it by ctypes."""

# for: cpu

import ctypes
import os
import subprocess
import tempfile

import torch
from torch import nn

C = r"""
#include <stddef.h>
void linear_relu(const float *restrict x, const float *restrict w, const float *restrict b, float *restrict y,
                 size_t m, size_t n, size_t k) {
    for (size_t i = 0; i < m; ++i)
        for (size_t j = 0; j < n; ++j) {
            float sum = b[j];
            for (size_t l = 0; l < k; ++l) sum += x[i * k + l] * w[j * k + l];
            y[i * n + j] = sum > 0.0f ? sum : 0.0f;
        }
}
"""
FLOATS = ctypes.POINTER(ctypes.c_float)


def compiled():
    folder = tempfile.mkdtemp(prefix="kernel-")
    source, library = os.path.join(folder, "kernel.c"), os.path.join(folder, "kernel.so")
    with open(source, "w") as file:
        file.write(C)
    subprocess.check_call(["gcc", "-O3", "-ffast-math", "-shared", "-fPIC", source, "-o", library])
    function = ctypes.CDLL(library).linear_relu
    function.argtypes = [FLOATS] * 4 + [ctypes.c_size_t] * 3
    function.restype = None
    return function


kernel = compiled()


def pointer(t):
    return ctypes.cast(t.data_ptr(), FLOATS)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty(x.shape[0], self.linear.out_features, dtype=x.dtype)
        weight, bias = self.linear.weight.detach().contiguous(), self.linear.bias.detach()
        kernel(pointer(x), pointer(weight), pointer(bias), pointer(y), *y.shape, x.shape[1])
        return y
