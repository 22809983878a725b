"""Traces for Perfetto, and ranges for NVTX."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mucc.cli.main import main
from mucc.cli.registry import MUCC
from mucc.measure.profile import StageTime
from mucc.measure.trace import Launch, trace
from mucc.runtime import launches

CALLS = [
    [Launch("h", 10.0, 30.0, 1.0), Launch("out", 30.0, 35.0, 3.0)],
    [Launch("h", 110.0, 120.0, 101.0), Launch("out", 120.0, 120.0, 102.0)],
]
STAGES = [
    StageTime("h", "gemm", 20.0, 4000.0, 10.0, "tensor.bf16"),
    StageTime("out", "map", 5.0, 100.0, 1.0, "dram"),
]


def test_a_trace_has_a_slice_for_each_launch():
    written = json.loads(trace("k", "NVIDIA H200", {"M": 4}, CALLS, STAGES))
    slices = [e for e in written["traceEvents"] if e["ph"] == "X"]
    assert [(e["name"], e["ts"], e["dur"]) for e in slices] == [
        ("h", 10.0, 20.0),
        ("out", 30.0, 5.0),
        ("h", 110.0, 10.0),
        ("out", 120.0, 0.0),
    ]
    assert slices[0]["args"] == {
        "call": 0,
        "kind": "gemm",
        "bytes": 4000.0,
        "bound_us": 10.0,
        "bound_by": "tensor.bf16",
        "GB/s": 0.2,
        "share_of_bound": 0.5,
    }
    instants = [e for e in written["traceEvents"] if e["ph"] == "i"]
    assert [(e["name"], e["ts"]) for e in instants] == [
        ("h", 1.0),
        ("out", 3.0),
        ("h", 101.0),
        ("out", 102.0),
    ]
    assert {e["tid"] for e in slices}.isdisjoint({e["tid"] for e in instants})
    assert written["otherData"] == {"kernel": "k", "card": "NVIDIA H200", "dims": {"M": 4}}


@pytest.mark.parametrize("name", ["", "k.mcu", "no/such/folder/t.json"])
def test_odd_names_of_traces_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("k.mcu").write_text("kernel k[M](x: f32[M]) -> f32[M] {\n    return x + x\n}\n")
    assert main(["run", "k.mcu", "--dims", "M=4", "--trace", name, "--device", "cpu"], MUCC) in (1, 2, 3)
    assert [p.name for p in tmp_path.iterdir()] == ["k.mcu"]


def test_a_trace_needs_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    Path("k.mcu").write_text("kernel k[M](x: f32[M]) -> f32[M] {\n    return x + x\n}\n")
    assert main(["run", "k.mcu", "--dims", "M=4", "--trace", "t.json", "--device", "cpu"], MUCC) == 3
    assert "MU6070" in capsys.readouterr().err


class Recorded:
    """Ranges that are written down."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def push(self, name: str) -> None:
        self.found.append(name)

    def pop(self) -> None:
        self.found.append("-")


def test_calls_have_ranges_and_stages_have_ranges_in_them(monkeypatch: pytest.MonkeyPatch):
    hooks: list[Any] = []
    monkeypatch.setattr(launches, "_set_hook", lambda library, hook: hooks.append(hook))
    recorded = Recorded()
    annotation = launches.Annotation(Path("k.so"), recorded)

    def run(fail: bool) -> int:
        hooks[0](b"h", None)
        if fail:
            raise ValueError
        hooks[0](b"out", None)
        return 7

    call = annotation.call("mlp", run)
    assert call(False) == 7
    assert recorded.found == ["mlp", "h", "-", "out", "-", "-"]
    recorded.found.clear()
    with pytest.raises(ValueError):
        call(True)
    assert recorded.found == ["mlp", "h", "-", "-"]


def test_ranges_are_made_by_the_package_if_they_are_wanted(monkeypatch: pytest.MonkeyPatch):
    made: list[tuple[str, ...]] = []
    package: Any = ModuleType("nvtx")
    package.push_range = lambda name, domain: made.append((name, domain))
    package.pop_range = lambda domain: made.append((domain,))
    monkeypatch.setitem(sys.modules, "nvtx", package)
    monkeypatch.setenv(launches.SWITCH, "0")
    assert launches.ranges() is None
    monkeypatch.setenv(launches.SWITCH, "1")
    found = launches.ranges()
    assert found is not None
    found.push("h")
    found.pop()
    assert made == [("h", "mucc"), ("mucc",)]
    monkeypatch.setitem(sys.modules, "nvtx", None)
    monkeypatch.setitem(sys.modules, "torch.cuda.nvtx", None)
    assert launches.ranges() is None
    function = {"k": len}
    assert launches.annotated(Path("k.so"), function) == function
