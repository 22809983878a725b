"""Ten kernels beside their rivals: the files are there, and figures are means over kernels that both have."""

from __future__ import annotations

import ast
import json
import subprocess
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from bench import common, farm
from bench.rivals import CASES
from bench.rivals import __main__ as rivals
from mucc.build.cluster.connection import disconnect
from mucc.compiler.program import compile_source
from mucc.diagnostics.core import Source
from mucc.library.signature import Manifest
from mucc.measure.dims import complete_dims
from mucc.measure.tune import local

OPTIONS = Namespace(
    tune=False,
    against="torch",
    plots=None,
    helion_effort="quick",
    helion_seconds=5,
    timeout=9,
    gpus="0,1",
    quack_seconds=7,
    first_call=3,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_programs_have_rivals(case: Any) -> None:
    path = rivals.PROGRAMS / f"{case.name}.mcu"
    compilation = compile_source(Source(path.name, path.read_text()), "sm_90a")
    (info,) = Manifest.parse(compilation.manifest).kernels
    assert complete_dims(info, case.dims)
    files = [path.with_suffix(f".{kind}.py") for kind in ("helion", "triton", "cutedsl")]
    found = [file for file in files if file.exists()]
    assert files[0] in found and files[2] in found
    for file in found:
        functions = {n.name: n for n in ast.parse(file.read_text()).body if isinstance(n, ast.FunctionDef)}
        assert len(functions[info.name].args.args) == len(info.inputs), file.name


def row(name: str, **times: float | None) -> dict[str, object]:
    return {"name": name, "results": [{"name": n, "time_us": t} for n, t in times.items()]}


def test_figures_are_geometric_means_over_kernels_of_both() -> None:
    rows = [row("a", mucc=10.0, torch=20.0, helion=None), row("b", mucc=10.0, torch=5.0, helion=10.0)]
    found = rivals.summarise([*rows, row("c", mucc=None, torch=1.0), row("d")])
    assert found["rivals.torch.mucc_speedup"] == 1.0 and found["rivals.torch.least"] == 0.5
    assert found["rivals.helion.kernels"] == 1 and found["rivals.torch.kernels"] == 2
    assert found["rivals.best.mucc_speedup"] == 1.0
    assert "(no time: helion)" in rivals.line(rows[0])


def test_every_gpu_has_one_kernel_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    busy: set[str] = set()

    def mucc(words: list[str], environment: dict[str, str], seconds: float) -> Any:
        gpu = environment["CUDA_VISIBLE_DEVICES"]
        assert gpu not in busy and environment["HELION_AUTOTUNE_BUDGET_SECONDS"] == "5"
        busy.add(gpu)
        name = Path(words[1]).stem
        said = json.dumps({"results": [{"name": "mucc", "time_us": 1.0}]}) if name != "gated" else ""
        busy.remove(gpu)
        return subprocess.CompletedProcess(words, 0, said, "error: no\n")

    monkeypatch.setattr(rivals, "_mucc", mucc)
    rows = list(rivals.run_all(CASES, OPTIONS))
    assert {row["name"] for row in rows} == {case.name for case in CASES}
    assert [row["problem"] for row in rows if "problem" in row] == ["exit status 0: error: no"]


def test_speedups_of_the_farm_are_of_medians(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    monkeypatch.setattr(farm, "write_result", lambda *words, **_: written.append(words))
    seconds = [(1, 8.0, 0), (2, 4.0, 0), (1, 10.0, 0), (2, 5.0, 0), (1, 12.0, 0), (2, 9.0, 0), (2, 99.0, 1)]
    rows = [
        {"gpus": n, "through": "ray", "measuring_s": s, "wall_s": 2 * s, "lost": lost}
        for n, s, lost in seconds
    ]
    assert farm.report(rows, simulated=True) == 0
    assert written[0][3] == {"farm.ray.gpus_2.measuring_speedup": 2.0, "farm.ray.gpus_2.wall_speedup": 2.0}


WHOLE = {
    "problems": 40, "tuned": 40, "measurements": 320, "good": 320, "stored": 320, "known": 0, "lost": 1
}  # fmt: skip


@pytest.mark.parametrize(
    "changed", [{}, {"tuned": 39}, {"stored": 321}, {"lost": 0}, {"good": 319}, {"kept": 100}]
)
def test_a_loss_may_cost_nothing(changed: dict[str, int]) -> None:
    if changed:
        with pytest.raises(SystemExit, match="--lose actor: not all was tuned"):
            farm.check_loss("actor", {**WHOLE, **changed})
    else:
        farm.check_loss("actor", WHOLE)
        farm.check_loss("driver", {**WHOLE, "known": 100, "kept": 100})


@pytest.mark.long
def test_a_killed_command_and_a_full_store_cost_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Scheduling, storing and Ray are real; measurements sleep, and libraries are zeros."""
    pytest.importorskip("ray")
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    words = ["--gpus", "2", "--ray", "local", "--stand-in", "2", "--losses-only", "--lose", "driver,store"]
    monkeypatch.setattr("sys.argv", ["farm", *words])
    monkeypatch.setattr(local, "build_each", local.build_each)
    try:
        assert farm.main() == 0
    finally:
        disconnect()
    (path,) = tmp_path.glob("*/farm_ray.json")
    driver, store = json.loads(path.read_text())["rows"]
    assert driver["kept"] >= farm.LOSE_AT and store["blocks"] < farm.STORE_BYTES // farm.BLOCK_BYTES


def test_results_of_several_runs_are_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common, "RESULTS", tmp_path)

    def run(
        file: str, card: str, versions: dict[str, str] | None = None, **times: tuple[float, float]
    ) -> str:
        rows = [
            {
                "name": kernel,
                "results": [{"name": "mucc", "time_us": ours}, {"name": "torch", "time_us": other}],
            }
            for kernel, (ours, other) in times.items()
        ]
        versions = {"torch": "2.11"} | (versions or {})
        made = {"card": card, "versions": versions, "command": file, "date": file, "commit": ""}
        made["rows"] = rows
        (tmp_path / file).write_text(json.dumps(made))
        return str(tmp_path / file)

    first = run("a", "h100", softmax=(1.0, 9.0), linear=(1.0, 2.0))
    second = run("b", "h100", softmax=(1.0, 8.0))
    made = json.loads(rivals.merged([first, second]).read_text())
    assert [row["name"] for row in made["rows"]] == ["linear", "softmax"]
    assert made["summary"]["rivals.torch.mucc_speedup"] == 4.0 and made["commands"] == ["a", "b"]
    assert made["versions"] == {"torch": "2.11"} and made["date"] == "b"
    with pytest.raises(ValueError, match="differ in their card"):
        rivals.merged([first, run("c", "h200", linear=(1.0, 2.0))])
    again = json.loads(rivals.merged([str(tmp_path / "h100" / "rivals.json"), second]).read_text())
    assert again["commands"] == ["a", "b", "b"] and len(again["rows"]) == 2
    newer = run("d", "h100", {"helion": "1.5"}, linear=(1.0, 3.0))
    rows = json.loads(rivals.merged([first, newer]).read_text())["rows"]
    assert [row.get("versions") for row in rows] == [{"helion": "1.5"}, None]
    with pytest.raises(ValueError, match="differ in their versions of torch"):
        rivals.merged([first, run("e", "h100", {"torch": "2.12"}, linear=(1.0, 2.0))])
