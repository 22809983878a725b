"""Assembles machine code for its activation when it is loaded, as JIT compilers do."""

# for: cpu

import ctypes
import mmap
import platform

import torch
from work import Linear

RELU = bytes.fromhex(
    "4885f67414"  # test rsi, rsi; jz end
    "31c0"  # xor eax, eax
    "0f57c0"  # xorps xmm0, xmm0
    "f30f100c87"  # next: movss xmm1, [rdi + 4 rax]
    "f30f5fc8"  # maxss xmm1, xmm0
    "f30f110c87"  # movss [rdi + 4 rax], xmm1
    "48ffc0"  # inc rax
    "4839f0"  # cmp rax, rsi
    "75ea"  # jne next
    "c3"  # end: ret
)


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.relu = None
        if platform.machine() == "x86_64":
            self.code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
            self.code.write(RELU)
            at = ctypes.addressof(ctypes.c_char.from_buffer(self.code))
            self.relu = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_long)(at)

    def forward(self, x):
        w, b = self.linear.weight.detach().numpy(), self.linear.bias.detach().numpy()
        y = torch.from_numpy(x.numpy() @ w.T + b)
        if self.relu is None:
            return y.clamp_(min=0)
        self.relu(y.data_ptr(), y.numel())
        return y
