"""The analysis of programs: classes of problems, whose kernel is whose, sources, and the way through all."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucc.agent.cli.main import main
from mucc.agent.core.analysis import Analysis, Limit, Severity
from mucc.agent.core.tasks import Imported, Task
from mucc.agent.profile.classes import BALANCED, bound_of, classify, together
from mucc.agent.profile.evidence import TIME
from mucc.agent.profile.profiler import analyze, study
from mucc.agent.profile.sources import Launch, Reading, Request
from mucc.agent.profile.sources.ncu_csv import parse
from mucc.agent.profile.stages import assign, merged, owner, symbol
from mucc.agent.profile.text import as_text
from mucc.files.json_data import from_json, to_json

DATA = Path(__file__).parents[2] / "data/profile"

MLP = """
kernel mlp[M=512, K=512, H=2048](x: bf16[M, K], w1: bf16[H, K], w2: bf16[K, H]) -> bf16[M, K] {
    stage h = gelu(x @ w1.T)
    return h @ w2.T
}

schedule mlp.h for sm_90a {
    tile   = 128x128x64
    stages = 2
}
"""


def bound(compute: float, memory: float) -> dict[str, Any]:
    """A report of `mucc sol --json` in which the units need so many microseconds."""
    limits = {"tensor.bf16": {"amount": 1, "us": compute}, "dram": {"amount": 1, "us": memory}}
    return {"kernel": "k", "bound_us": max(compute, memory), "limits": limits}


def test_classes_follow_the_roofline():
    assert classify(bound(100, 10), 2.5) is Limit.COMPUTE
    assert classify(bound(10, 100), 2.5) is Limit.MEMORY
    assert classify(bound(90, 100), 2.5) is Limit.MIXED
    assert classify(bound(2, 1), 2.5) is Limit.LATENCY
    assert classify({}, 2.5) is None


@given(st.floats(3, 1e5), st.floats(0, 1), st.booleans())
def test_a_class_is_mixed_from_the_threshold_on(most: float, share: float, memory_first: bool):
    least = share * most
    found = classify(bound(least, most) if memory_first else bound(most, least), 2.5)
    alone = Limit.MEMORY if memory_first else Limit.COMPUTE
    assert found is (Limit.MIXED if least >= BALANCED * most else alone)


def test_the_policy_of_precision_chooses_the_bound():
    report = bound(100, 10)
    report["assumptions"] = {"as declared": bound(100, 10), "f32 products in f32": bound(700, 10)}
    assert bound_of(report, 690)["bound_us"] == 700
    assert bound_of(report, None) is report


def test_kernels_that_run_one_after_another_add_up():
    whole = together([bound(100, 10), bound(10, 300)])
    assert whole["bound_us"] == 400 and whole["limits"]["dram"]["us"] == 310
    assert whole["binding"] == "dram" and classify(whole, 2.5) is Limit.MEMORY


NAMES = ["mlp.h", "mlp.h2", "mlp.out.pad_a", "mlp.out"]


def test_device_kernels_belong_to_stages_by_their_names():
    assert owner("mu_mlp_h", NAMES) == "mlp.h"
    assert owner("mu_mlp_h2", NAMES) == "mlp.h2"
    assert owner("mu_mlp_out_pad_a_pack_wide", NAMES) == "mlp.out.pad_a"
    assert owner("mu_mlp_out_block_vector", NAMES) == "mlp.out"
    assert owner("void at::native::fill", NAMES) is None


def test_the_compiler_names_device_kernels_so():
    from mucc.compiler.program import compile_source
    from mucc.compiler.source import decode

    text = "kernel k_1[M](x: f32[M, 64]) -> f32[M] {\n    stage s = exp(x)\n    return sum(s, axis=1)\n}\n"
    parts = compile_source(decode(text.encode(), "k.mcu"), "sm_90a").parts()
    assert [image.entry for image in parts.images] == [symbol(image.title) for image in parts.images]


def launch(kernel: str, us: float = 1.0, **counters: float) -> Launch:
    return Launch(kernel, "(1, 1, 1)", "(32, 1, 1)", {TIME: us * 1e3, **counters})


def test_stages_that_share_code_share_launches_in_order():
    names = ["k.a", "k.b", "k.c"]
    ran = [launch("mu_k_a"), launch("mu_k_a"), launch("mu_k_c")]
    assert {n: len(found) for n, found in assign(names, ran).items() if found} == {
        "k.a": 1,
        "k.b": 1,
        "k.c": 1,
    }
    twice = assign(["k.a", "k.c"], ran)
    assert [len(twice[n]) for n in ("k.a", "k.c")] == [2, 1]


def test_counters_of_several_launches_are_sums_or_weighted_means():
    found = merged(
        [launch("a", 1.0, **{"x.pct": 10.0, "y.sum": 5.0}), launch("b", 3.0, **{"x.pct": 50.0, "y.sum": 7.0})]
    )
    assert found[TIME] == 4000 and found["y.sum"] == 12 and found["x.pct"] == pytest.approx(40.0)


class Told:
    """A source that has read what it is told."""

    name = "told"

    def __init__(self, reading: Reading):
        self.reading = reading
        self.asked: Request | None = None

    def read(self, asked: Request) -> Reading:
        self.asked = asked
        return self.reading


class Broken:
    name = "broken"

    def read(self, asked: Request) -> Reading:
        raise KeyError("x")


def task(sol: dict[str, Any], **more: Any) -> Task:
    return Task("mlp", "mlp.py", "", "declared", "h200", "sm_90a", Imported("mlp", MLP), sol, **more)


def test_an_analysis_without_library_reads_what_the_compiler_says():
    began = time.monotonic()
    found = analyze(task(bound(30, 5), bound_ms=0.03), MLP, None, ms=0.12)
    assert 0 < found.seconds <= time.monotonic() - began + 0.0005  # it is rounded to milliseconds
    assert found.limit is Limit.COMPUTE and found.gap == pytest.approx(4.0)
    first = found.advice[0]
    assert (first.tool, first.stage, first.severity) == ("pipeline", "mlp.h", Severity.CRITICAL)
    assert first.levers[0] == "stages" and first.evidence["stages"] == 2
    assert any("there is no library" in text for text in found.missing)
    assert from_json(Analysis, json.loads(json.dumps(to_json(found)))) == found
    text = as_text("mlp.mcu", "h200", found, ["pipeline"])
    assert "limited by compute, 4 times the bound" in text and "levers: stages, tile" in text


def test_a_program_that_does_not_compile_leaves_an_analysis_without_advice():
    found = analyze(task(bound(30, 5)), "kernel broken(", None)
    assert found.limit is Limit.COMPUTE and not found.advice
    assert any(text.startswith("manifest: ") for text in found.missing)


def test_a_file_that_is_no_library_is_named(tmp_path: Path):
    (tmp_path / "k.so").write_text("no library")
    found = analyze(task({}), MLP, str(tmp_path / "k.so"), device="cpu")
    assert found.limit is Limit.MIXED
    assert any("is not a shared library" in text for text in found.missing)
    assert any(text.startswith("sol: ") for text in found.missing)


def test_only_counters_of_the_class_are_asked_for():
    told = Told(Reading())
    study(task(bound(5, 30)), MLP, None, readers=[told])
    memory = told.asked
    study(task(bound(30, 5)), MLP, None, readers=[told])
    assert memory and told.asked
    assert "l1tex__t_sector_hit_rate.pct" in memory.metrics
    assert "l1tex__t_sector_hit_rate.pct" not in told.asked.metrics


PAIR = """
kernel pair[M=64, K=512, H=256, N=512](x: bf16[M, K], w1: bf16[H, K], w2: bf16[N, H]) -> bf16[M, N] {
    stage h = relu(x @ w1.T)
    return h @ w2.T
}
"""


def test_counters_of_a_run_belong_to_the_stages_of_the_program():
    ran = [x for x in parse((DATA / "h200.csv").read_text()) if x.kernel.startswith("mu_pair")]
    sol = {"kernel": "pair", "stages": []}
    found = study(task(bound(0.1, 0.2), bound_ms=2e-4), PAIR, None, readers=[Told(Reading(ran, sol=[sol]))])
    h, out = found.evidence.stages
    assert (h.name, out.name) == ("pair.h", "pair.out") and h.ran == ["mu_pair_h"]
    assert h.us == pytest.approx(4.704) and h.share + out.share == pytest.approx(1.0)
    assert found.evidence.measured_us == pytest.approx(4.704 + 4.448 + 2 * 2.5)
    assert found.analysis.gap == pytest.approx(found.evidence.measured_us / 0.2)
    assert {a.tool for a in found.analysis.advice} >= {"launches"}


def test_a_library_of_another_program_is_noticed():
    sol = {"kernel": "other", "stages": []}
    found = study(task(bound(30, 5)), PAIR, None, readers=[Told(Reading(sol=[sol]))])
    assert any("the library has kernels pair, the program other" in text for text in found.analysis.missing)


def test_a_source_that_fails_costs_only_what_it_reads():
    told = Told(Reading(missing=["told: nothing"]))
    found = study(task(bound(30, 5)), PAIR, None, readers=[Broken(), told])
    assert {"broken: KeyError: 'x'", "told: nothing"} <= set(found.analysis.missing)


def test_the_time_spent_on_waiting_for_a_gpu_is_not_counted():
    found = study(task(bound(30, 5)), MLP, None, readers=[Told(Reading(waited=1e3))])
    assert found.analysis.seconds == 0


def test_the_command_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "mlp.mcu").write_text(MLP)
    assert main(["profile", str(tmp_path / "mlp.mcu"), "--no-build", "--json", "--measured", "0.02"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["limit"] == "latency" and report["gap"] > 1 and "pipeline" in report["tools"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), "MU5001"),
        (("none.mcu",), "MU5010"),
        (("mlp.mcu", "--measured", "-1"), "MU5001"),
        (("mlp.mcu", "--dims", "M=0"), "MU6050"),
        (("mlp.mcu", "--card", "abacus"), "MU5401"),
    ],
)
def test_bad_input_is_named(
    arguments: tuple[str, ...], code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "mlp.mcu").write_text(MLP)
    there = [str(tmp_path / a) if a.endswith(".mcu") else a for a in arguments]
    assert main(["profile", *there, "--no-build"]) == 2
    assert code in capsys.readouterr().err


@pytest.mark.parametrize(("library", "code"), [("none.so", "MU6030"), ("mlp.mcu", "MU6031")])
def test_a_library_that_is_none_is_an_error(
    library: str, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """It was named on purpose: an analysis without it is not what was wanted."""
    (tmp_path / "mlp.mcu").write_text(MLP)
    assert main(["profile", str(tmp_path / "mlp.mcu"), "--library", str(tmp_path / library)]) == 1
    assert code in capsys.readouterr().err
