"""The models of bench.models: names, ratios, and cases that run where their libraries are installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from bench.models.__main__ import without
from bench.models.forms import MODELS, laid_out
from bench.models.measuring import Setting, contenders, judged
from bench.models.summary import figures, lines, merged
from bench.models.together import measured_together

torch: Any = pytest.importorskip("torch")


def row(gpu: float, error: float = 0.01) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": "gpt2",
        "gpu_ms": {"eager": 3.0, "inductor/default": 2.0, "mucc/default": gpu},
        "wall_ms": {"eager": 3.0, "inductor/default": 2.0, "mucc/default": 2.0},
        "first_s": {"inductor/default": 5.0, "mucc/default": 10.0},
        "error": {"eager": 0.01, "mucc/default": error},
        "failed": {},
    }
    return made | judged(made)


def test_keys_are_unique():
    keys = [m.key for m in MODELS]
    assert len(set(keys)) == len(keys) and sum(m.trains for m in MODELS) == 3


def test_figures():
    found = figures([row(1.0), row(4.0), {"name": "other", "error": "no memory"}])
    assert found["models.measured"] == 2 and found["models.wrong"] == 0
    assert found["models.over_best_inductor_geomean"] == 1.0
    assert found["models.over_best_inductor_min"] == 0.5
    assert found["models.first_call_cold_over_inductor"] == 2.0


def test_errors_are_judged_by_eager_pytorchs():
    assert row(1.0, 0.015)["good"] and not row(1.0, 0.016)["good"] and not row(1.0, float("nan"))["good"]
    assert "WRONG" in lines(row(1.0, 1.0)) and "WRONG" not in lines(row(1.0))


def test_a_model_without_times_says_why():
    assert "no memory" in lines({"name": "other", "error": "no memory"})


def test_rows_of_several_runs_are_joined():
    other = row(1.0)
    for key in ("gpu_ms", "wall_ms", "error"):
        other[key] = {k.replace("default", "max-autotune"): v for k, v in other[key].items()}
    found = merged(row(4.0), other)
    assert found["over_inductor_gpu"] == {"default": 0.5, "max-autotune": 2.0} and found["good"]
    assert merged(found, {"name": "gpt2", "error": "no memory"}) == found
    assert merged(row(4.0), row(1.0))["over_inductor_gpu"] == {"default": 2.0}


def test_contenders_are_in_the_same_modes():
    names = [n for n, _, _ in contenders(Setting(("default", "max-autotune"), ("inductor", "mucc"), 3))]
    assert names == ["inductor/default", "mucc/default", "inductor/max-autotune", "mucc/max-autotune"]


def test_inductor_is_compared_in_its_faster_layout():
    found = [n for n, _, _ in contenders(Setting(("default",), ("inductor", "mucc"), 3), "channels_last")]
    assert found == ["inductor/default", "inductor-channels_last/default", "mucc/default"]
    slower = row(1.0)
    slower["gpu_ms"]["inductor-channels_last/default"] = 1.5
    assert judged(slower)["over_inductor_gpu"] == {"default": 1.5}


def test_networks_of_images_run_in_both_layouts():
    named = {m.key: m for m in MODELS if m.other}
    assert set(named) == {f"{n}-32-{f}" for n in ("resnet50", "convnext-t", "unet") for f in ("bf16", "tf32")}
    with torch.device("meta"):
        case = named["unet-32-bf16"].make(torch)
    other = laid_out(torch, case, named["unet-32-bf16"].other)
    assert other.args[0].is_contiguous() and case.args[0].is_contiguous(memory_format=torch.channels_last)


def test_the_recommender_runs(monkeypatch: pytest.MonkeyPatch):
    from bench.models import networks

    monkeypatch.setattr(networks, "ROWS", 50)
    module = networks.Recommender(torch)
    sparse = torch.randint(50, (4, networks.TABLES))
    assert module(torch.randn(4, 13), sparse).shape == (4, 1)


def test_the_u_net_runs():
    from bench.models import networks

    assert networks.unet(torch).eval()(torch.randn(1, 3, 32, 32)).shape == (1, 2, 32, 32)


STAND_IN = """
import sys, time
from pathlib import Path
from bench.models.gate import pass_gate
gate, key = Path(sys.argv[1]), sys.argv[2]
if key == "never":
    time.sleep(60)
pass_gate(gate, key)
assert not list(gate.glob("timed")), "another is timed"
(gate / "timed").touch()
time.sleep(0.03)
(gate / "timed").unlink()
"""


def test_models_are_compiled_at_once_and_timed_apart(capfd: pytest.CaptureFixture[str]):
    def command(key: str, gate: Path) -> list[str]:
        return [sys.executable, "-c", STAND_IN, str(gate), key]

    keys = ["one", "never", "two"]
    assert sorted(measured_together(command, keys, seconds=1.6, share=0.6)) == ["one", "two"]
    assert "never: not measured" in capfd.readouterr().err


def test_a_model_in_a_process_of_its_own_has_the_same_options():
    words = ["--only", "gpt", "--together=9", "--modes", "default", "--warm"]
    assert without(words, "--together", "--only") == ["--modes", "default", "--warm"]


def test_first_calls_are_summarised_by_what_they_find() -> None:
    def row(how: str, cold: float, warm: float) -> dict[str, Any]:
        times = {"first_s": {"inductor/default": 4.0, "mucc/default": cold}}
        times |= {"warm_s": {"inductor/default": 2.0, "mucc/default": warm}, "error": {"eager": 1.0}}
        return {"name": f"gpt2, {how}", "how": how, **times, **judged({**times})}

    found = figures(
        [row("background", 2.0, 1.0), row("background", 8.0, 1.0), row("empty", 40.0, 2.0)], "first_calls"
    )
    assert found == {
        "models.first_call_cold_over_inductor_background": 1.0,
        "models.first_call_warm_over_inductor_background": 0.5,
        "models.first_call_cold_over_inductor_empty": 10.0,
        "models.first_call_warm_over_inductor_empty": 1.0,
    }
