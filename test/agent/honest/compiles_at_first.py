"""Compiles C++ when it is first called."""

# for: cpu

import ctypes
import subprocess
import tempfile
from pathlib import Path

from work import Linear

SOURCE = """
extern "C" void linear_relu(
        const float *x, const float *w, const float *b, float *y, long m, long n, long k) {
    for (long i = 0; i < m; ++i)
        for (long j = 0; j < n; ++j) {
            float sum = b[j];
            for (long l = 0; l < k; ++l) sum += x[i * k + l] * w[j * k + l];
            y[i * n + j] = sum > 0 ? sum : 0;
        }
}
"""


def built():
    folder = Path(tempfile.mkdtemp())
    (folder / "a.cpp").write_text(SOURCE)
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-o", folder / "a.so", folder / "a.cpp"], check=True)
    return ctypes.CDLL(str(folder / "a.so")).linear_relu


class ModelNew(Linear):
    kernel = None

    def forward(self, x):
        if self.kernel is None:
            self.kernel = built()
        y = x.new_empty(x.shape[0], self.linear.weight.shape[0])
        tensors = x, self.linear.weight, self.linear.bias, y
        sizes = (*y.shape, x.shape[1])
        self.kernel(*(ctypes.c_void_p(t.data_ptr()) for t in tensors), *map(ctypes.c_long, sizes))
        return y
