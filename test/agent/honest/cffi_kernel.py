"""Calls a C library by cffi, which reads its declarations."""

# for: cpu
# needs: cffi

import os
import subprocess
import tempfile

import cffi
import torch
from work import Linear

C = r"""
void linear_relu(const float *x, const float *w, const float *b, float *y, int m, int n, int k) {
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
            float sum = b[j];
            for (int l = 0; l < k; ++l) sum += x[i * k + l] * w[j * k + l];
            y[i * n + j] = sum > 0 ? sum : 0;
        }
}
"""

ffi = cffi.FFI()
ffi.cdef("void linear_relu(const float *, const float *, const float *, float *, int, int, int);")


def library():
    folder = tempfile.mkdtemp()
    source, target = os.path.join(folder, "k.c"), os.path.join(folder, "k.so")
    with open(source, "w") as file:
        file.write(C)
    subprocess.run(["gcc", "-O3", "-shared", "-fPIC", "-o", target, source], check=True)
    return ffi.dlopen(target)


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.kernel = library()

    def forward(self, x):
        w, b = self.linear.weight, self.linear.bias
        y = torch.empty(x.shape[0], w.shape[0])
        pointers = [ffi.cast("float *", t.data_ptr()) for t in (x, w, b, y)]
        self.kernel.linear_relu(*pointers, *y.shape, x.shape[1])
        return y
