"""Kernels as functions of PyTorch: they compute what the float64 interpreter does, or are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mucc.compiler.program import compile_source
from mucc.diagnostics.core import DiagnosticError, Source
from mucc.library.signature import Manifest
from mucc.measure.verify import against, references

torch: Any = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = [*sorted((ROOT / "examples").glob("*.mcu")), *sorted((ROOT / "test/gpu/programs").glob("r*.mcu"))]
EXTENTS = (24, 40, 16, 32, 8, 48)


def compiled(path: Path) -> Any:
    return compile_source(Source(path.name, path.read_text()), "sm_90a")


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_functions_mean_what_programs_mean(path: Path) -> None:
    from mucc.measure.against import LOOSE
    from mucc.measure.run_gpu import random_inputs
    from mucc.torch.exporter import torch_function

    compilation = compiled(path)
    for info in Manifest.parse(compilation.manifest).kernels:
        try:
            function = torch_function(compilation.mu, info.name)
        except DiagnosticError as error:
            assert error.diagnostics[0].code == "MU6071"
            continue
        free = [name for name, value in info.dims.items() if value is None]
        dims = {name: value for name, value in info.dims.items() if value is not None}
        dims |= dict(zip(free, EXTENTS, strict=False))
        inputs = random_inputs(info, dims, 1, torch.device("cpu"))
        given = function(*inputs)
        values = given if isinstance(given, tuple) else (given,)
        wanted = references(compilation, info, inputs)
        for arg, value, want in zip(info.outputs, values, wanted, strict=True):
            verdict = against(arg.name, arg.dtype, value.to(torch.float64), want, torch)
            # PyTorch rounds every step to the dtype of its tensors.
            assert verdict.relative <= LOOSE * verdict.tolerance, (info.name, verdict)


def test_texts_are_what_one_would_write() -> None:
    from mucc.torch.exporter import torch_source

    texts = [
        torch_source(compiled(ROOT / "examples" / f"{stem}.mcu").mu, name)
        for stem, name in (("linear_gelu", "linear_gelu"), ("swiglu", "swiglu"))
    ]
    assert texts == [
        "def linear_gelu(x, w, b):\n    return F.gelu(F.linear(x, w, b))\n",
        "def swiglu(x, wg, wu, wd):\n    return F.silu(x @ wg.mT) * (x @ wu.mT) @ wd.mT\n",
    ]


@pytest.mark.parametrize("stem", ["w4a16", "sparse_linear"])
def test_what_has_no_short_form_is_refused(stem: str) -> None:
    from mucc.torch.exporter import torch_source

    with pytest.raises(DiagnosticError) as caught:
        torch_source(compiled(ROOT / "examples" / f"{stem}.mcu").mu, stem)
    assert caught.value.diagnostics[0].code == "MU6071"


def test_attention_with_sinks_is_refused() -> None:
    from mucc.torch.exporter import torch_source

    text = (
        "kernel f[N](q: bf16[2, N, 64], k: bf16[2, N, 64], v: bf16[2, N, 64], s: f32[2]) -> bf16[2, N, 64]"
        " { return attention(q, k, v, sinks=s) }"
    )
    with pytest.raises(DiagnosticError) as caught:
        torch_source(compile_source(Source("f.mcu", text), "sm_90a").mu, "f")
    assert caught.value.diagnostics[0].code == "MU6071"
