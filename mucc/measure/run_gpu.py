"""The GPU side of `mucc run`: inputs, launch, reference, and times. Imports torch."""

from __future__ import annotations

import importlib
import os
import random
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from mucc.build.artefact import build
from mucc.dialects.mu.arrays import TorchArrays
from mucc.library.packing import pack_s4, pack_u4
from mucc.library.signature import PACKED, Arg, KernelInfo, evaluate
from mucc.library.sparse import sparsify
from mucc.measure.indices import draw_indices
from mucc.measure.profile import StageTime, card_named, stage_times
from mucc.measure.report import Report
from mucc.measure.timing import interleaved_us, measured_calls, times_by_stage
from mucc.measure.trace import trace
from mucc.measure.verify import against, input_scales, references
from mucc.runtime.torch_glue import DTYPES, TorchKernel, packed_strides

if TYPE_CHECKING:
    from mucc.build.artefact import Request
    from mucc.compiler.compilation import Compilation
    from mucc.runtime.kernel import Kernel

torch: Any = importlib.import_module("torch")


def empty(arg: Arg, dims: dict[str, int], device: Any) -> Any:
    """Allocate an uninitialised tensor of the argument's dtype, shape and layout."""
    shape = list(arg.stored(dims))
    if arg.layout == "row_major":
        return torch.empty(shape, dtype=DTYPES[arg.dtype], device=device)
    if arg.layout == "col_major":
        shape[-2:] = reversed(shape[-2:])
        packed = torch.empty(shape, dtype=DTYPES[arg.dtype], device=device)
        return packed.transpose(-1, -2) if len(shape) > 1 else packed
    return torch.empty_strided(shape, packed_strides(arg, shape), dtype=DTYPES[arg.dtype], device=device)


def random_inputs(info: KernelInfo, dims: dict[str, int], seed: int, device: Any) -> list[Any]:
    """Draw the inputs in order: tensors on the device, floats for by-value scalars."""
    generator = torch.Generator(device).manual_seed(seed)
    rng = random.Random(seed)
    scales = input_scales(info, dims)
    inputs: list[Any] = []
    for arg in info.inputs:
        if arg.role == "scalar":
            number = torch.rand((), generator=generator, device=device, dtype=torch.float32) + 0.5
            inputs.append(float(number))
            continue
        if arg.indices:
            numbers = draw_indices(arg, dims, rng)
            inputs.append(empty(arg, dims, device).copy_(torch.tensor(numbers).reshape(arg.extents(dims))))
            continue
        values = torch.randn(arg.extents(dims), generator=generator, device=device, dtype=torch.float32)
        rounded = TorchArrays(device).round_to(values * scales[arg.name], arg.dtype)
        if arg.layout == "sparse":
            inputs.append(sparsify(rounded.to(DTYPES[arg.dtype]), prune=True))
            continue
        if arg.dtype in PACKED:
            rounded = (pack_s4 if arg.dtype == "s4" else pack_u4)(rounded.to(torch.int8))
        inputs.append(empty(arg, dims, device).copy_(rounded))
    return inputs


def poison(out: Any) -> None:
    """Fill an output with what no kernel writes: NaN, or the largest integer."""
    if out.dtype.is_floating_point and out.element_size() > 1:
        out.fill_(float("nan"))
    elif out.dtype.is_floating_point:
        out.view(torch.uint8).fill_(0x7F)
    else:
        out.fill_(torch.iinfo(out.dtype).max)


def run_on_gpu(
    compilation: Compilation,
    info: KernelInfo,
    dims: dict[str, int],
    seed: int,
    request: Request,
    iters: int,
    progress: Callable[[str], None],
    *,
    profiled: bool = False,
    traced: Callable[[str], None] | None = None,
) -> Report:
    """Build, run over poisoned outputs, compare with the float64 interpreter on the GPU, and time.

    With `profiled` also the single kernels are timed; `traced` gets a trace of their launches.
    """
    import tempfile

    from mucc.runtime.module import load

    artefact = build(request, progress)
    with tempfile.TemporaryDirectory(prefix="mucc-") as folder:
        path = Path(folder) / f"{request.stem}.so"
        path.write_bytes(artefact.data)
        kernel = load(path)[info.name]
        # The file is opened a second time to be profiled: the loader knows it by its name.
        of_stages = path if profiled or traced else None
        return _run(compilation, kernel, dims, seed, of_stages, iters, progress, traced)


def _run(
    compilation: Compilation,
    kernel: Kernel,
    dims: dict[str, int],
    seed: int,
    profiled: Path | None,
    iters: int,
    progress: Callable[[str], None],
    traced: Callable[[str], None] | None,
) -> Report:
    """Run, compare and time a kernel; `profiled` is the library whose single kernels are timed."""
    info = kernel.info
    device = torch.device("cuda", torch.cuda.current_device())
    args = random_inputs(info, dims, seed, device)
    outs = TorchKernel(kernel).allocate(args)
    for out in outs:
        poison(out)
    size = kernel.workspace_bytes(*args, *outs)
    workspace = [torch.empty(size, dtype=torch.uint8, device=device)] if size else []
    os.environ["MUCC_CHECK_INDICES"] = "1"
    kernel.launch(*args, *outs, *workspace)
    torch.cuda.synchronize(device)
    del os.environ["MUCC_CHECK_INDICES"]  # which would have the timed launches wait for the device
    progress("interpreting the program in float64")
    wanted = references(compilation, info, args)
    verdicts = [
        against(a.name, a.dtype, out.to(torch.float64), want, torch)
        for a, out, want in zip(info.outputs, outs, wanted, strict=True)
    ]
    del wanted

    def launch() -> Any:
        return kernel.ffi(*args, *outs, *workspace)

    times = interleaved_us([launch], iters, device)[0]
    stages: list[StageTime] = []
    if profiled is not None:
        card = card_named(torch.cuda.get_device_name(device), compilation.options.target)
        calls = measured_calls(launch, profiled, iters, device)
        stages = stage_times(compilation, info.name, dims, times_by_stage(calls), card)
        if traced is not None:
            traced(trace(info.name, torch.cuda.get_device_name(device), dims, calls, stages))
    middle = median(times)
    flops = sum(evaluate(terms, dims) for unit, terms in info.flops.items() if unit.startswith("tensor"))
    return Report(
        info.name,
        info.signature,
        dims,
        seed,
        torch.cuda.get_device_name(device),
        "the kernel's outputs, poisoned before the run",
        verdicts,
        middle,
        min(times),
        flops / middle / 1e6 if flops else None,
        evaluate(info.bytes, dims) / middle / 1e3,
        stages=stages,
    )
