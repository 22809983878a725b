"""Passes its arguments to C++ in one structure, with strides, as libraries of linear algebra do."""

import ctypes

import torch
from native import build
from work import Linear

SOURCE = r"""
struct Matrix { float *data; long rows, columns, stride; };
struct Arguments { Matrix x, w, y; const float *bias; };
extern "C" int apply(const Arguments *a) {
    if (a->x.columns != a->w.columns) return 1;
    for (long i = 0; i < a->y.rows; ++i)
        for (long j = 0; j < a->y.columns; ++j) {
            const float *x = a->x.data + i * a->x.stride, *w = a->w.data + j * a->w.stride;
            float sums[4] = {};
            for (long l = 0; l < a->x.columns; ++l) sums[l % 4] += x[l] * w[l];
            float sum = a->bias[j] + ((sums[0] + sums[1]) + (sums[2] + sums[3]));
            a->y.data[i * a->y.stride + j] = sum > 0 ? sum : 0;
        }
    return 0;
}
"""


class Matrix(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), *((n, ctypes.c_long) for n in ("rows", "columns", "stride"))]

    @classmethod
    def of(cls, tensor):
        return cls(tensor.data_ptr(), *tensor.shape, tensor.stride(0))


class Arguments(ctypes.Structure):
    _fields_ = [("x", Matrix), ("w", Matrix), ("y", Matrix), ("bias", ctypes.c_void_p)]


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.apply_ = build(SOURCE).apply

    def forward(self, x):
        y = torch.empty(x.shape[0], self.linear.weight.shape[0])
        matrices = map(Matrix.of, (x, self.linear.weight, y))
        if self.apply_(ctypes.byref(Arguments(*matrices, self.linear.bias.data_ptr()))):
            raise ValueError("matrices that do not fit")
        return y
