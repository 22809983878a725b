"""The stages of `mucc sol` are those that the compiler forms, and move what its kernels read and write."""

from __future__ import annotations

from pathlib import Path

import pytest

from mucc.diagnostics import Source
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.frontend import lower, parse
from mucc.passes import levels
from mucc.passes.pipeline import pipeline
from mucc.sol.program import analyse_source
from mucc.target.devices import cards

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = sorted([*(ROOT / "examples").glob("*.mcu"), *(ROOT / "test/gpu/programs").glob("*.mcu")])
TYPICAL = 256


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_stages_are_those_of_the_compiler(path: Path):
    source = Source(path.name, path.read_text(encoding="utf-8"))
    compiled = lower(*parse(source))
    for step, level in pipeline("sm_90a"):
        if level is levels.LOWERED:
            break
        step.apply(None, compiled)
    kernels = [k for k in compiled.body.block.ops if isinstance(k, KernelOp)]
    wanted = {
        k.sym_name.data: [
            (s.stage_name.data, s.kind.data) for s in k.body.block.ops if isinstance(s, StageOp)
        ]
        for k in kernels
    }
    dims = {n: TYPICAL for k in kernels for n in k.dim_names if n not in k.bound_dims}
    found = analyse_source(source, cards()["h200"], dims)
    assert {s.kernel: [(x.name, x.kind) for x in s.stages] for s in found} == wanted


def test_narrow_weights_are_read_as_they_are():
    path = ROOT / "examples/w4a16.mcu"
    source = Source(path.name, path.read_text(encoding="utf-8"))
    m, n, k = 16, 4096, 4096
    (found,) = analyse_source(source, cards()["h200"], {"M": m, "N": n, "K": k})
    (stage,) = found.stages
    assert stage.bytes == found.bound.limits[0].amount
    assert stage.bytes == 2 * m * k + n * k // 2 + 2 * 2 * n * k // 128 + 2 * n + 2 * m * n
