"""Decide whether kernels can run on this machine; without a GPU, interpret the lowered program."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mucc.diagnostics.core import DiagnosticError
from mucc.library.dims import fault
from mucc.library.signature import KernelInfo
from mucc.measure.report import Report

if TYPE_CHECKING:
    from mucc.compiler.compilation import Compilation


def no_gpu() -> str | None:
    """Why nothing can run on a GPU here; None where it can."""
    try:
        torch: Any = importlib.import_module("torch")
    except ModuleNotFoundError:
        from mucc.build.toolchain.doctor import gpu

        found = gpu()
        return "torch is not installed" + ("" if found.found else f", and there is no GPU: {found.detail}")
    if torch.version.cuda is None:
        return "the installed torch is built without CUDA"
    if not torch.cuda.is_available():
        return "there is no usable NVIDIA GPU"
    return None


def gpu_problem(target: str) -> str | None:
    """Why a kernel for `target` cannot run here; None where it can."""
    if reason := no_gpu():
        return reason
    torch: Any = importlib.import_module("torch")
    major, minor = torch.cuda.get_device_capability()
    wanted = int(target.removeprefix("sm_").rstrip("af"))
    # What is for one architecture alone says so in its name; other code runs on later GPUs too.
    fits = 10 * major + minor >= wanted if target[-1].isdigit() else 10 * major + minor == wanted
    return None if fits else f"the GPU is sm_{major}{minor}, the kernel is for {target}"


def check_memory(info: KernelInfo, dims: dict[str, int]) -> None:
    """Raise MU5109 where float64 copies of the arguments alone are more than the machine has room for."""
    from math import prod

    from mucc.process.machine import available_memory

    needed = 8 * sum(prod(a.extents(dims)) for a in (*info.inputs, *info.outputs))
    room = available_memory()
    if room is not None and needed > room:
        sizes = ",".join(f"{name}={max(value // 16, 1)}" for name, value in dims.items())
        raise fault(
            "MU5109",
            f"interpreting takes {needed / 2**30:.0f} GiB and more, and {room / 2**30:.0f} GiB are free",
            f"smaller sizes check the program as well: --dims {sizes}",
        )


def run_on_cpu(
    compilation: Compilation,
    info: KernelInfo,
    dims: dict[str, int],
    seed: int,
    progress: Callable[[str], None],
) -> Report:
    """Compare the lowered program with the source, both interpreted."""
    from random import Random

    import numpy as np

    from mucc.dialects.mu.arrays import NumpyArrays
    from mucc.measure.indices import draw_indices
    from mucc.measure.verify import against, input_scales, references

    arrays = NumpyArrays()
    random = np.random.default_rng(seed)
    scales = input_scales(info, dims)
    inputs: list[Any] = []
    for arg in info.inputs:
        if arg.role == "scalar":
            inputs.append(float(np.float32(random.uniform(0.5, 1.5))))
            continue
        if arg.indices:
            numbers = draw_indices(arg, dims, Random(int(random.integers(1 << 31))))
            inputs.append(np.array(numbers, dtype=np.float64).reshape(arg.extents(dims)))
            continue
        values = random.standard_normal(arg.extents(dims)) * scales[arg.name]
        if arg.layout == "sparse":
            inputs.append(_pruned(values, arg.dtype))
            continue
        inputs.append(arrays.round_to(values, arg.dtype))
    sizes = ",".join(f"{name}={extent}" for name, extent in dims.items())
    progress(
        f"interpreting the program and what it was lowered to for {sizes}; smaller --dims take less time"
    )
    with np.errstate(all="ignore"):
        wanted = references(compilation, info, inputs)
        lowered = compilation.interpret_lowered(info.name, inputs)
        verdicts = [
            against(a.name, a.dtype, arrays.round_to(got, a.dtype), want, np)
            for a, got, want in zip(info.outputs, lowered, wanted, strict=True)
        ]
    checked = "the lowered program, interpreted on the CPU"
    return Report(info.name, info.signature, dims, seed, "cpu", checked, verdicts)


def _pruned(values: Any, dtype: str) -> Any:
    """Random numbers with the 2:4 pattern (1:2 of f32), rounded to a dtype."""
    import numpy as np

    from mucc.dialects.mu.arrays import NumpyArrays
    from mucc.library.sparse import prune

    stored = np.float32 if dtype == "f32" else np.int8 if dtype in ("s8", "u8") else np.float16
    rounded = NumpyArrays().round_to(values, dtype)
    return prune(rounded.astype(stored)).astype(np.float64)


def load_note(request: Any, progress: Callable[[str], None]) -> str:
    """Build the library and load it, as far as this machine can; says how far that was."""
    import tempfile
    from pathlib import Path

    from mucc.build.artefact import build
    from mucc.runtime.module import load

    try:
        artefact = build(request, progress)
    except DiagnosticError as error:
        if not all(d.code.startswith("MU5") for d in error.diagnostics):
            raise
        return f"the .so was not built: {error.diagnostics[0].message}"
    with tempfile.TemporaryDirectory(prefix="mucc-") as folder:
        path = Path(folder) / f"{request.stem}.so"
        path.write_bytes(artefact.data)
        module = load(path)
    found = ", ".join(k.name for k in module)
    return f"the .so was built ({len(artefact.data) >> 10} KiB) and loads; it holds {found}"
