"""Programs of test/data that stand beside a description, and what PyTorch computes for it.

A folder has a `.mcu` file with one kernel for each description, its first line, and `references.py` with a
`Reference` of the same name in `REFERENCES`.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from mucc.compiler.compilation import Compilation
from mucc.diagnostics.core import Source
from mucc.dialects.mu.arrays import TorchArrays
from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.types import Shaped, dtype_name
from mucc.frontend import lower, parse
from mucc.library.extents import value
from mucc.library.signature import Manifest
from mucc.measure.run_gpu import random_inputs
from mucc.measure.verify import against, compare, references

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Reference:
    """What a program computes, by PyTorch: `compute` takes the inputs in order, in float64.

    `sizes` are values of the open dims. `inputs` makes inputs of those that were drawn, where a program takes
    only some. `refused` is the code and the functions that no kernel exists for yet.
    """

    compute: Callable[..., Any]
    sizes: Mapping[str, int]
    inputs: Callable[..., Sequence[Any]] = lambda *drawn: drawn
    refused: tuple[str, tuple[str, ...]] | None = None


@cache
def _module(folder: str) -> ModuleType:
    path = ROOT / "test" / "data" / folder / "references.py"
    spec = importlib.util.spec_from_file_location(f"{folder}_references", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def references_in(folder: str) -> dict[str, Reference]:
    """The references of a folder of test/data by program."""
    return _module(folder).REFERENCES


def programs_in(folder: str) -> dict[str, Path]:
    """The programs of a folder of test/data by name."""
    return {path.stem: path for path in sorted((ROOT / "test" / "data" / folder).glob("*.mcu"))}


def source_of(path: Path) -> Source:
    """Read a program."""
    return Source(path.name, path.read_text(encoding="utf-8"))


def assert_language_agrees(path: Path, reference: Reference, seed: int = 0) -> None:
    """Compare the interpretation of the language with the reference, for a program without kernels."""
    source = source_of(path)
    program, sink = parse(source)
    module = lower(program, sink)
    sink.raise_if_errors()
    (kernel,) = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    generator = torch.Generator().manual_seed(seed)
    drawn: list[Any] = []
    for argument in kernel.body.block.args:
        shaped = Shaped.of(argument.type)
        shape = [value(d, reference.sizes) for d in shaped.dims]
        numbers = torch.randn(shape, generator=generator)
        drawn.append(TorchArrays("cpu").round_to(numbers, dtype_name(shaped.element_type)))
    inputs = reference.inputs(*drawn)
    results = interpret_kernel(kernel, list(inputs))
    dtypes = [dtype_name(Shaped.of(t).element_type) for t in kernel.function_type.outputs]
    _assert_close(dtypes, results, _wanted(reference, inputs))


def assert_all_agree(compilation: Compilation, reference: Reference, seed: int = 0) -> None:
    """Compare the reference with the language and with the lowered program, kernel by kernel.

    The lowered program may be off by what the roundings of its device kernels explain, as kernels may in
    `mucc run`.
    """
    (info,) = Manifest.parse(compilation.manifest).kernels
    drawn = random_inputs(info, dict(reference.sizes), seed, "cpu")
    inputs = reference.inputs(*(torch.as_tensor(x).to(torch.float64) for x in drawn))
    dtypes = [a.dtype for a in info.outputs]
    _assert_close(dtypes, compilation.interpret(info.name, inputs), _wanted(reference, inputs))
    lowered = compilation.interpret_lowered(info.name, inputs)
    by_language = references(compilation, info, inputs)
    for arg, out, want in zip(info.outputs, lowered, by_language, strict=True):
        verdict = against(arg.name, arg.dtype, out, want, torch)
        assert verdict.good, verdict


def _wanted(reference: Reference, inputs: Sequence[Any]) -> list[Any]:
    found = reference.compute(*inputs)
    return list(found) if isinstance(found, tuple | list) else [found]


def _assert_close(dtypes: Sequence[str], results: Sequence[Any], wanted: Sequence[Any]) -> None:
    arrays = TorchArrays("cpu")
    for i, (dtype, result, want) in enumerate(zip(dtypes, results, wanted, strict=True)):
        pair = (arrays.round_to(torch.as_tensor(v).to(torch.float64), dtype) for v in (result, want))
        verdict = compare(f"result {i}", dtype, *pair, torch)
        assert verdict.good, verdict
