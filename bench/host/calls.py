"""Call kernels on the host with PyTorch's tensors of the CPU, in several orders of threads."""

from __future__ import annotations

import ctypes as ct
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from bench.host.abi import CPU, CUDA, DTYPES, Device, DType, Tensor
from bench.host.program import CHECKED, HostProgram
from mucc.compiler.compilation import Compilation
from mucc.library.errors import MuccError
from mucc.library.signature import KernelInfo
from mucc.measure.run_gpu import poison
from mucc.runtime.torch_glue import DTYPES as OF_TORCH

_CODES = {OF_TORCH[name]: DType(*code, 1) for name, code in DTYPES.items() if name in OF_TORCH}

ORDERS = (1, 2)
"""Seeds of the orders in which threads and blocks run, besides that of their numbers."""

PROCESSORS = (132, 3)
"""How many multiprocessors plans are made for: an H100's, and so few that blocks take several tiles."""


class HostKernel:
    """A kernel of a program, with all accesses of its threads checked.

    `launch` calls it in several orders of threads and blocks, which leave the same bits if `same_bits`.
    """

    def __init__(
        self, compilation: Compilation, folder: Path, processors: int = 0, *, same_bits: bool = True
    ):
        self._same_bits = same_bits
        self._program = HostProgram.built(compilation, folder, "-O1", *CHECKED)
        self.info: KernelInfo = self._program.kernels[0]
        library: Any = self._program.library
        library.on_host_reports.restype = ct.c_char_p
        library.on_host_seed.argtypes = [ct.c_uint64]
        library.on_host_sm_count(processors)
        self._library = library
        self._call: Any = getattr(library, f"mucc_{self.info.name}")
        self._call.argtypes = [ct.c_void_p, ct.c_int, ct.c_void_p, ct.c_size_t, ct.c_void_p]

    def launch(self, *arguments: Any) -> None:
        """Call the kernel. Raises MuccError with what it refuses, and with MU6016 for what checks found."""
        given = [_Given(a) for a in arguments]
        outputs = arguments[len(self.info.inputs) :]
        first: list[Any] | None = None
        for seed in (0, *ORDERS):
            for out in outputs:
                poison(out)
            self._once(given, seed)
            found = [_bits(out) for out in outputs]
            first = first or found
            for arg, own, other in zip(self.info.outputs, first, found, strict=True):
                if self._same_bits and not torch.equal(own, other):
                    raise MuccError("MU6016", f"{arg.name} depends on the order of threads (order {seed})")

    def _once(self, given: Sequence[_Given], seed: int) -> None:
        self._library.on_host_seed(seed)
        tensors = (Tensor * len(given))(*(g.tensor for g in given))
        failed = self._call(tensors, len(given), None, 0, None)
        if found := self._library.on_host_reports().decode():
            raise MuccError("MU6016", f"order {seed}:\n{self._with_lines(found)}")
        if failed:
            text = self._program.library.mucc_last_error().decode()
            raise MuccError(text[:6] if text.startswith("MU") else "MU9001", text)

    def _with_lines(self, found: str) -> str:
        """Replace each address in the library by its file and line in the source."""
        places = re.findall(r"^\+(0x[0-9a-f]+)", found, re.MULTILINE)
        command = ["addr2line", "-e", str(self._program.path), *places]
        lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split("\n")
        for place, line in zip(places, lines, strict=False):
            found = found.replace(f"+{place} ", f"{line.rpartition('/mucc/')[2]} ")
        return found


class _Given:
    """An argument as the C interface takes it."""

    def __init__(self, value: Any):
        if isinstance(value, float):
            self._number = ct.c_float(value)
            self.tensor = Tensor(
                ct.addressof(self._number), Device(CPU, 0), 0, DType(2, 32, 1), None, None, 0
            )
            return
        n = value.dim()
        shape, strides = (ct.c_int64 * n)(*value.shape), (ct.c_int64 * n)(*value.stride())
        device, code = Device(CUDA, 0), _CODES[value.dtype]
        self.tensor = Tensor(value.data_ptr(), device, n, code, shape, strides, 0)


def _bits(out: Any) -> Any:
    return out.reshape(-1).clone().view(torch.uint8)
