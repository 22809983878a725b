"""Host overhead of a call, in microseconds: `python -m bench.launch kernel.so [--kernel NAME] [--size 256]`.

Without a library, `python -m bench.launch` needs no GPU: a function of tvm-ffi that does nothing stands for
the library's entry, and tensors lie on the CPU. That shows what a call adds to the entry in the code of
torch.compile: by the launcher that this code calls, and by the operator that torch's dispatcher calls.

Every contender makes many calls in a row without waiting for the GPU, in batches that fit the launch queue,
and the GPU work of a call is small. What is measured is the time that the calling thread spends per call:
the median over batches. `repeated` calls pass the same tensors each time, `changing` ones cycle through
more sets of tensors than a library remembers.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any, NoReturn

from bench.common import run_main, write_result
from bench.timing import card
from mucc.library.signature import Arg, KernelInfo

BATCH = 400
"""Calls between two waits: a GPU's queue holds about a thousand launches."""

BATCHES = 60
SETS = 16
"""Sets of tensors that `changing` calls cycle through; a library remembers four."""


def c_tensors(torch: Any, values: Sequence[Any]) -> tuple[Any, object]:
    """Tensors and numbers as the C door takes them: an array of MuccTensor, and what must outlive it.

    A MuccTensor is a DLTensor, and that is what a DLPack capsule points to.
    """
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsules = [(torch.tensor(v) if isinstance(v, float) else v).__dlpack__() for v in values]
    size = 48
    data = b"".join(ctypes.string_at(pointer(c, b"dltensor"), size) for c in capsules)
    return ctypes.create_string_buffer(data, len(data)), capsules


LOOP = """
#include <chrono>
#include <cstddef>
using Door = int (*)(const void*, int, void*, size_t, void*);
extern "C" double loop(Door door, const void* args, int n, void* workspace, size_t bytes, void* stream,
                       int calls) {
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) door(args, n, workspace, bytes, stream);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / calls;
}
"""


def loop_us(torch: Any, door: Any, args: tuple[Any, ...]) -> tuple[float, float]:
    """Median and least microseconds of a call through the C door in a loop of C++: no Python takes part.

    What it shows beyond the checks, about 0.1, is the time that the CUDA driver takes for a launch.
    """
    with tempfile.TemporaryDirectory() as directory:
        source, library = Path(directory, "loop.cpp"), Path(directory, "loop.so")
        source.write_text(LOOP)
        subprocess.run(["g++", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
        loop = ctypes.CDLL(str(library)).loop
    loop.restype = ctypes.c_double
    loop.argtypes = [ctypes.c_void_p, *door.argtypes, ctypes.c_int]
    times: list[float] = []
    for _ in range(BATCHES + 5):
        torch.cuda.synchronize()
        times.append(loop(ctypes.cast(door, ctypes.c_void_p), *args, BATCH))
    return median(times[5:]), min(times[5:])


def per_call_us(
    torch: Any, function: Callable[..., Any], sets: Sequence[tuple[Any, ...]]
) -> tuple[float, float]:
    """Median and least time per call in microseconds, with the arguments taken from `sets` in turn."""
    calls = list(islice(cycle(sets), BATCH))
    times: list[float] = []
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    for batch in range(BATCHES + 5):
        wait()
        start = time.perf_counter_ns()
        for args in calls:
            function(*args)
        stop = time.perf_counter_ns()
        if batch >= 5:  # the first ones warm up
            times.append((stop - start) / BATCH / 1e3)
    wait()
    return median(times), min(times)


SHAPE = (8, 32, 14, 14)
PROGRAM = """kernel f(x: bf16[8, 32, 14, 14], r: bf16[8, 32, 14, 14]) -> bf16[8, 32, 14, 14] {
    return relu(x + r)
}
"""


def refuse(args: Sequence[Any], error: Exception) -> NoReturn:
    """Raise the error of a call that is measured."""
    raise error


def on_host() -> None:
    """Measure what calls add to a library's entry, on any machine, and print a table."""
    torch: Any = importlib.import_module("torch")
    tvm_ffi: Any = importlib.import_module("tvm_ffi")
    from mucc.runtime.kernel import Kernel
    from mucc.torch.backend import operator
    from mucc.torch.backend.launcher import launch_of

    nothing = tvm_ffi.get_global_func("testing.nop")
    inputs = (Arg(name, "input", "bf16", SHAPE, "row_major", 16) for name in "xr")
    args = (*inputs, Arg("y", "output", "bf16", SHAPE, "row_major", 16))

    def kernel(workspace: bool) -> Any:
        info = KernelInfo("f", "mucc_f", "f", {}, args, (), workspace, {}, ())
        return Kernel(info, nothing, lambda *given: 4096)

    request = operator.Request(PROGRAM, "sm_90a")
    operator.adopt(request, kernel(False))
    x, r, y = tensors = [torch.zeros(SHAPE, dtype=torch.bfloat16) for _ in range(3)]
    allocate = torch._C._dynamo.guards._empty_strided_cpu
    strides, direct = y.stride(), launch_of(kernel(False), refuse)

    def generated() -> None:
        direct(x, r, allocate(SHAPE, strides, torch.bfloat16))

    contenders: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
        ("entry", nothing, (*tensors,)),
        ("launcher", direct, (*tensors,)),
        ("launcher_workspace", launch_of(kernel(True), refuse), (*tensors,)),
        ("allocation", allocate, (SHAPE, strides, torch.bfloat16)),
        ("allocation_launcher", generated, ()),
        ("operator", operator.RUN_KERNEL, ([x, r], request.text)),
        ("torch_add", torch.add, (x, r)),
    ]
    with torch.no_grad():
        for name, function, given in contenders:
            middle, least = per_call_us(torch, function, [given])
            print(f"{name:<24}{middle:8.2f} µs{least:8.2f} µs at best", flush=True)


def main() -> None:
    """Measure, print a table, and write the result of measuring a library."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "so", type=Path, nargs="?", help="a kernel library, made with `mucc kernel.mcu -o kernel.so`"
    )
    parser.add_argument("--kernel", help="which kernel (default: the first)")
    parser.add_argument("--size", type=int, default=256, help="the extent of every free dim (default: 256)")
    options = parser.parse_args()
    if options.so is None:
        on_host()
        return

    torch: Any = importlib.import_module("torch")
    import mucc
    from mucc.measure.run_gpu import random_inputs
    from mucc.runtime.torch_glue import TorchKernel
    from mucc.torch.backend.launcher import launch_of

    module = mucc.load(options.so)
    kernel = module[options.kernel] if options.kernel else module.kernels[0]
    info = kernel.info
    dims = {n: options.size if v is None else v for n, v in info.dims.items()}
    device = torch.device("cuda", torch.cuda.current_device())
    glue = TorchKernel(kernel)
    inputs = [tuple(random_inputs(info, dims, seed, device)) for seed in range(SETS)]
    full = [(*args, *glue.allocate(args)) for args in inputs]
    space = torch.empty(max(kernel.workspace_bytes(*full[0]), 1), dtype=torch.uint8, device=device)

    door = ctypes.CDLL(str(module.path))[info.symbol]
    door.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    stream = torch.cuda.current_stream().cuda_stream
    packed = [c_tensors(torch, args) for args in full]
    c_args = [(data, len(info.args), space.data_ptr(), space.numel(), stream) for data, _ in packed]
    if door(*c_args[0]):
        raise SystemExit("the C door refused the call")

    n = options.size
    x, w = (torch.randn(n, n, dtype=torch.bfloat16, device=device) for _ in range(2))
    contenders: list[tuple[str, Callable[..., Any], Sequence[tuple[Any, ...]]]] = [
        ("tvm_ffi", kernel.ffi, full),
        # The same conversions and checks, but nothing is launched: what is left of a call is the driver's.
        ("tvm_ffi_no_launch", kernel.ffi_workspace, full),
        ("launcher", launch_of(kernel, refuse), full),
        ("launch", kernel.launch, full),
        ("call", kernel, inputs),
        ("torch_op", kernel.op, inputs),
        ("c_ctypes", door, c_args),
        ("torch_linear", torch.nn.functional.linear, [(x, w)]),
    ]
    rows: list[dict[str, object]] = []
    summary: dict[str, float] = {}

    def record(name: str, kind: str, function: Callable[..., Any], sets: Sequence[tuple[Any, ...]]) -> None:
        note(name, kind, *per_call_us(torch, function, sets))

    def note(name: str, kind: str, middle: float, least: float) -> None:
        rows.append({"contender": name, "tensors": kind, "median_us": middle, "min_us": least})
        key = f"launch.{name}_us" if kind == "repeated" else f"launch.{name}_{kind}_us"
        summary[key] = round(middle, 3)
        print(f"{name:<24}{kind:<10}{middle:8.2f} µs{least:8.2f} µs at best", flush=True)

    for name, function, sets in contenders:
        record(name, "repeated", function, sets[:1])
        if len(sets) > 1:
            record(name, "changing", function, sets)
    note("c_loop", "repeated", *loop_us(torch, door, c_args[0]))
    # torch's default stream is CUDA's legacy one, which waits for all others: the driver takes longer there.
    with torch.cuda.stream(torch.cuda.Stream()):
        record("tvm_ffi_own_stream", "repeated", kernel.ffi, full[:1])
        record("tvm_ffi_own_stream", "changing", kernel.ffi, full)
    label = card(torch, device)
    extra = {"torch": torch.__version__, "cuda": torch.version.cuda}
    print(write_result(label, "launch", rows, summary, extra_versions=extra))


if __name__ == "__main__":
    run_main(main)
