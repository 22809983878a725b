"""Times of single kernels: the hook of a library, the bounds beside them, and the table."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from mucc.cli.main import main
from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.measure.profile import as_lines, card_named, stage_times
from mucc.runtime.launches import called_at_launches

TEXT = """
kernel two[M, N=1024](x: bf16[M, N], w: bf16[N, N], v: bf16[N, N]) -> bf16[M, N] { return relu(x @ w) @ v }
"""

LIBRARY = """
typedef void (*Hook)(char const* stage, void* stream);
static Hook hook;
void mucc_on_launch(Hook to) { hook = to; }
int launch(char const* stage) { return hook ? hook(stage, 0), 1 : 0; }
"""


def test_a_function_is_called_with_the_stage(tmp_path: Path) -> None:
    source, path = tmp_path / "k.c", tmp_path / "k.so"
    source.write_text(LIBRARY)
    subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(path)], check=True)
    library = ctypes.CDLL(str(path))
    found: list[str] = []
    with pytest.raises(KeyError), called_at_launches(path, found.append):
        assert library.launch(b"first") and library.launch(b"second")
        raise KeyError
    assert library.launch(b"third") == 0
    assert found == ["first", "second"]


def test_times_stand_beside_bounds() -> None:
    compilation = compile_text(Source("k.mcu", TEXT))
    card = card_named("NVIDIA H200", "sm_90a")
    times = {"s0": [30.0, 20.0, 10.0], "out": [5.0]}
    first, second = stage_times(compilation, "two", {"M": 4096, "N": 1024}, times, card)
    assert (first.name, first.kind, first.time_us, second.time_us) == ("s0", "gemm", 20.0, 5.0)
    assert first.bytes == 2 * (2 * 4096 * 1024 + 1024 * 1024)
    seconds = 2 * 4096 * 1024 * 1024 / card.device.datasheet["bf16"]
    assert first.bound_us == pytest.approx(seconds * 1e6)
    assert first.share == pytest.approx(first.bound_us / 20)
    lines = as_lines([first, second])
    assert lines[1].startswith("s0     gemm") and "20.0 µs" in lines[1]
    assert lines[1].count("█") + lines[1].count("░") == 4 * (lines[2].count("█") + lines[2].count("░"))
    assert lines[-1].split()[:3] == ["all", "25.0", "µs"]


def test_an_unknown_card_counts_as_one_of_the_target() -> None:
    assert card_named("NVIDIA H900", "sm_90a").target.name == "sm_90a"


def test_without_a_gpu_there_is_nothing_to_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.mcu"
    path.write_text(TEXT)
    assert main(["run", str(path), "--profile", "--device", "cpu", "--dims", "M=8"]) == 3
    printed = capsys.readouterr().err
    assert "error[MU6070]" in printed
    assert "--emit=graph" in printed
