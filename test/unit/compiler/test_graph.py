"""Graphs of device kernels: what they say, and their drawing by Graphviz."""

from __future__ import annotations

from pathlib import Path

import pytest

from mucc.analysis.bound import Rates
from mucc.cli.main import main
from mucc.compiler.driver import Compilation, Options, compile_text
from mucc.compiler.launches import launches_of
from mucc.diagnostics import Source
from mucc.target import get_target

TEXT = """
kernel gated[M, N=512](x: bf16[M, N], g: bf16[N, N], u: bf16[N, N]) -> bf16[M, N] {
  return (silu(x @ g.T) * (x @ u.T)) @ g
}
"""


def compiled(**dims: int) -> Compilation:
    return compile_text(Source("k.mcu", TEXT), Options(dims=dims))


def test_a_pair_of_products_counts_both() -> None:
    compilation = compiled()
    target = get_target("sm_90a")
    (program,) = compilation.programs
    rates = Rates(target.facts.devices[0], target.facts.multiprocessor)
    first, second = launches_of(compilation.stages, program, {"M": 4096}, rates)
    assert first.bound is not None
    tensor = first.bound.limit("tensor.bf16")
    assert tensor is not None
    assert tensor.amount == 2 * 2 * 4096 * 512 * 512
    assert first.bytes_read.at({"M": 4096}) == 2 * (4096 * 512 + 2 * 512 * 512)
    # What the first kernel writes to the workspace the second one reads.
    assert set(first.writes) < set(second.reads)


def test_without_sizes_there_is_no_bound() -> None:
    text = compiled().emit("graph")
    assert "at least" not in text
    assert "*M B" in text
    assert "at least" in compiled(M=64).emit("graph")


def fake_dot(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dot = folder / "dot"
    dot.write_text(f"#!/bin/sh\n{script}\n")
    dot.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "k.mcu"
    path.write_text(TEXT)
    return path


def test_graphviz_draws(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_dot(source.parent, 'echo "$1"; cat', monkeypatch)
    drawn = source.with_suffix(".svg")
    assert main([str(source), "-o", str(drawn)]) == 0
    assert drawn.read_text().startswith("-Tsvg\ndigraph mucc {")


@pytest.mark.parametrize("script", [None, "exit 3"])
def test_where_graphviz_does_not_draw_nothing_is_written(
    script: str | None, source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if script is None:
        monkeypatch.setenv("PATH", str(source.parent))
    else:
        fake_dot(source.parent, script, monkeypatch)
    drawn = source.with_suffix(".svg")
    assert main([str(source), "-o", str(drawn)]) == 3
    assert "error[MU5410]" in capsys.readouterr().err
    assert not drawn.exists()
