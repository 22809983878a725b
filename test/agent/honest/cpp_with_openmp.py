"""Compiles C++ with OpenMP and vectors for this processor, as an extension made inline does."""

# for: cpu

import ctypes
import hashlib
import os
import subprocess
import tempfile

from torch import nn

CPP = r"""
#include <algorithm>
#include <cstdint>
extern "C" void linear_relu(const float *x, const float *w, const float *b, float *y,
                            int64_t m, int64_t n, int64_t k) {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t l = 0; l < k; ++l) sum += x[i * k + l] * w[j * k + l];
            y[i * n + j] = std::max(sum + b[j], 0.0f);
        }
}
"""


def load_inline(name, source, flags):
    """Build a library once, named after its source."""
    mark = hashlib.sha1((source + " ".join(flags)).encode()).hexdigest()[:12]
    folder = os.path.join(tempfile.gettempdir(), f"{name}_{mark}")
    os.makedirs(folder, exist_ok=True)
    library = os.path.join(folder, f"{name}.so")
    if not os.path.exists(library):
        subprocess.run(
            ["g++", *flags, "-shared", "-fPIC", "-x", "c++", "-", "-o", library],
            input=source.encode(),
            check=True,
        )
    return ctypes.CDLL(library)


module = load_inline("linear_relu", CPP, ["-O3", "-march=native", "-fopenmp", "-std=c++17"])


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        y = x.new_empty(x.shape[0], self.linear.out_features)
        tensors = (x, self.linear.weight, self.linear.bias, y)
        module.linear_relu(
            *(ctypes.c_void_p(t.data_ptr()) for t in tensors),
            *(ctypes.c_int64(n) for n in (*y.shape, x.shape[1])),
        )
        return y
