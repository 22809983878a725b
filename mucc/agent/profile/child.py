"""The process that a profiler attaches to: load a library and call its kernels.

    python -m mucc.agent.profile.child LIBRARY '{"kernel": {"M": 128}, …}' FOLDER

Each kernel is called once unseen, so that nothing is set up while the profiler looks, and once more seen. It
uses the plain C entry of the library and the CUDA driver, no framework. Before anything runs on the GPU it
leaves a file `ready` in the folder and waits for `go`: so the GPU is not wanted while processes start. When
all is called it leaves `done`.
"""

from __future__ import annotations

import array
import ctypes
import json
import random
import struct
import sys
import time
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from mucc.agent.profile.driver import Driver, DriverError
from mucc.api.library import ITEM_BYTES, PACKED, Arg, KernelInfo, MuccError, draw_indices, read_manifest

CUDA, CPU = 2, 1
"""Kinds of device in `mucc/abi.h`."""

CODES = {
    "bf16": (4, 16),
    "f16": (2, 16),
    "f32": (2, 32),
    "e4m3": (10, 8),
    "e5m2": (12, 8),
    "s8": (0, 8),
    "u8": (1, 8),
    "s4": (1, 8),
    "u4": (1, 8),
    "s32": (0, 32),
}
"""Type code and bits of a dtype in `mucc/abi.h`."""

NUMBERS = 1 << 16
"""The number of random values drawn; larger tensors repeat them."""

READY, GO, DONE = "ready", "go", "done"
"""Files by which the process and its parent synchronise."""

PAUSE = 0.002
"""Seconds between checks for a file."""

UNUSABLE = 3
"""Exit status where the kernels cannot be called here; stderr says why."""


class _Tensor(ctypes.Structure):
    """MuccTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class Unusable(Exception):
    """A kernel cannot be called with random arguments."""


def numbers(dtype: str, rng: random.Random) -> bytes:
    """Random numbers of a dtype, around 1 in size, as they lie in memory."""
    match dtype:
        case "f32" | "bf16":
            data = array.array("f", (rng.gauss(0, 1) for _ in range(NUMBERS))).tobytes()
            return data if dtype == "f32" else b"".join(data[i : i + 2] for i in range(2, len(data), 4))
        case "f16":
            return struct.pack(f"<{NUMBERS}e", *(rng.gauss(0, 1) for _ in range(NUMBERS)))
        case "e4m3" | "e5m2":
            # Neither NaN nor infinity: the upper bit of the exponent stays clear.
            return bytes(b & 0xBF for b in rng.randbytes(NUMBERS))
        case _:
            return rng.randbytes(NUMBERS)


def strides(arg: Arg, shape: tuple[int, ...]) -> list[int] | None:
    """Return the strides in elements; None if the tensor is contiguous."""
    if arg.layout == "row_major":
        return None
    packed = [1] * len(shape)
    if arg.layout == "col_major":
        order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2] if len(shape) > 1 else [0]
        step = 1
        for axis in reversed(order):
            packed[axis], step = step, step * shape[axis]
        return packed
    if not isinstance(arg.layout, tuple):
        raise Unusable(f"'{arg.name}' is {arg.layout}: its values cannot be made up")
    step = 1
    for axis in reversed(range(len(shape))):
        given = arg.layout[axis]
        packed[axis] = step if given is None else given
        step = max(step, packed[axis] * max(shape[axis], 1))
    return packed


class Call:
    """A call of one kernel, with everything that it needs in device memory."""

    def __init__(self, library: Any, info: KernelInfo, dims: Mapping[str, int], driver: Driver):
        rng = random.Random(0)
        self._keep: list[Any] = []
        self._tensors = (_Tensor * len(info.args))()
        for place, arg in zip(range(len(info.args)), info.args, strict=True):
            self._tensors[place] = self._argument(arg, dims, driver, rng)
        self._launch = getattr(library, info.symbol)
        measure = getattr(library, f"{info.symbol}_workspace")
        measure.restype = ctypes.c_int64
        size: int = measure(self._tensors, len(info.args))
        if size < 0:
            raise Unusable(_last_error(library))
        self._library = library
        self._bytes = ctypes.c_size_t(size)
        self._workspace = ctypes.c_void_p(driver.allocate(size) if size else None)

    def __call__(self) -> None:
        """Launch. Raises Unusable where the library refuses."""
        count = len(self._tensors)
        if self._launch(self._tensors, count, self._workspace, self._bytes, ctypes.c_void_p()):
            raise Unusable(_last_error(self._library))

    def _argument(self, arg: Arg, dims: Mapping[str, int], driver: Driver, rng: random.Random) -> _Tensor:
        code, bits = CODES[arg.dtype]
        if arg.role == "scalar":
            value = ctypes.c_float(1.0)
            self._keep.append(value)
            return _Tensor(ctypes.cast(ctypes.byref(value), ctypes.c_void_p), CPU, 0, 0, 2, 32, 1)
        shape = arg.stored(dims)
        steps = strides(arg, shape)
        reach = (
            prod(shape) if steps is None else 1 + sum((e - 1) * s for e, s in zip(shape, steps, strict=True))
        )
        size = max(reach, 1) * (1 if arg.dtype in PACKED else ITEM_BYTES[arg.dtype])
        address = driver.allocate(size)
        if arg.indices:
            driver.fill(address, size, array.array("i", draw_indices(arg, dims, rng)).tobytes())
        elif arg.role == "input":
            driver.fill(address, size, numbers(arg.dtype, rng))
        extents = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        jumps = None if steps is None else (ctypes.c_int64 * len(steps))(*steps)
        self._keep += [extents, jumps]
        return _Tensor(
            address,
            CUDA,
            0,
            len(shape),
            code,
            bits,
            1,
            ctypes.cast(extents, ctypes.POINTER(ctypes.c_int64)),
            None if jumps is None else ctypes.cast(jumps, ctypes.POINTER(ctypes.c_int64)),
        )


def _last_error(library: Any) -> str:
    library.mucc_last_error.restype = ctypes.c_char_p
    return (library.mucc_last_error() or b"a kernel refused its arguments").decode()


def run(path: str, sizes: Mapping[str, Mapping[str, int]], driver: Driver, folder: Path) -> None:
    """Call each kernel for which there are sizes, one after another, under the profiler."""
    manifest = read_manifest(Path(path))
    library = ctypes.CDLL(path)
    (folder / READY).touch()
    while not (folder / GO).exists():
        time.sleep(PAUSE)
    try:
        for info in manifest.kernels:
            if info.name not in sizes:
                continue
            call = Call(library, info, sizes[info.name], driver)
            call()
            driver.wait()
            driver.profile(True)
            call()
            driver.wait()
            driver.profile(False)
    finally:
        (folder / DONE).touch()


def main(argv: list[str]) -> int:
    """Run the process."""
    try:
        run(argv[0], json.loads(argv[1]), Driver(), Path(argv[2]))
    except (DriverError, Unusable, MuccError, ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return UNUSABLE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
