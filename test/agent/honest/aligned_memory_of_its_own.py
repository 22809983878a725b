"""Takes memory from the C library that begins at pages, and frees it with the tensor that lies in it."""

# for: cpu

import ctypes
import math
import weakref

import torch
from work import Linear

libc = ctypes.CDLL(None)
libc.aligned_alloc.restype = ctypes.c_void_p
libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
PAGE = 4096


def aligned(*shape):
    size = -(-math.prod(shape) * 4 // PAGE) * PAGE
    address = libc.aligned_alloc(PAGE, size)
    memory = (ctypes.c_float * math.prod(shape)).from_address(address)
    found = torch.frombuffer(memory, dtype=torch.float32).view(shape)
    weakref.finalize(memory, libc.free, address)
    return found


class ModelNew(Linear):
    def forward(self, x):
        return self.compute(x, aligned(x.shape[0], self.linear.weight.shape[0]))
