"""Convolutions by a strategy of choice, and their C++ on the host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from on_host import Program, run

from mucc.compiler.compilation import Compilation
from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.kernels.conv import lower
from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.op import ConvKernelOp, Strategy
from mucc.kernels.conv.strategies import WAYS
from mucc.target.facts import Facts


def forced(strategy: Strategy) -> Callable[[Layer, Facts], Strategy]:
    """Choose a strategy wherever it is legal, and elsewhere what is chosen without a test."""
    (way,) = (way for way in WAYS if way.strategy is strategy)
    usual = lower.choose
    return lambda layer, facts: usual(layer, facts) if way.refused(layer, facts) else strategy


def convolutions(compilation: Compilation) -> list[ConvKernelOp]:
    return [op for p in compilation.programs for op in p.kernels if isinstance(op, ConvKernelOp)]


def check_on_host(
    text: str, strategy: Strategy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[ConvKernelOp]:
    """Compare the kernels of a program with the interpreter, at two sizes of its open dims, and return them.

    All work has to be in kernels of convolutions and copies, and one of them at least has the strategy.
    """
    monkeypatch.setattr(lower, "choose", forced(strategy))
    compilation = compile_text(Source("k.mcu", text))
    found = convolutions(compilation)
    assert strategy in {op.strategy.data for op in found}
    assert {op.name for p in compilation.programs for op in p.kernels} <= {"cutlass.conv", "cutlass.map"}
    program = Program.of(compilation, tmp_path)
    program.library.on_host_sm_count(1)
    for info in program.kernels:
        for seed, align in ((0, 16), (1, 4)):
            run(program, info, dict.fromkeys(info.dims, 2 + seed), seed, align=align, within=2e-3)
    return found
