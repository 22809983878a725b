"""Bounds: against what is computed by hand, and what structure takes off them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucc.agent.audit.bound import lowest
from mucc.analysis import sol_report
from mucc.analysis.bound import DRAM, Rates
from mucc.analysis.sol import Sol
from mucc.analysis.structure import Pattern, Structure, product_share
from mucc.cli.main import main
from mucc.diagnostics import DiagnosticError, Source
from mucc.frontend import lower, parse
from mucc.sol.program import analyse_module, analyse_source
from mucc.target.devices import Card, calibration_path, cards, get_card, store

H200 = cards()["h200"]
TF, TB = 1e12, 1e12


def sol(text: str, card: Card = H200, **dims: int) -> Sol:
    (found,) = analyse_source(Source("t.mcu", text), card, dims)
    return found


def linear(dtype: str, body: str = "x @ w.T", extra: str = "", out: str | None = None) -> str:
    parameters = f"x: {dtype}[M, K], w: {dtype}[N, K]{extra}"
    return f"kernel f[M, N, K]({parameters}) -> {out or dtype}[M, N] {{ return {body} }}"


M, N, K = 4096, 14336, 4096
MNK = M * N * K

BY_HAND = {
    # name: (program, dims, unit that binds, microseconds)
    "bf16 product": (linear("bf16"), (M, N, K), "tensor.bf16", 2 * MNK / 989.5),
    "f16 product": (linear("f16"), (M, N, K), "tensor.f16", 2 * MNK / 989.5),
    "tf32 product": (linear("f32"), (M, N, K), "tensor.tf32", 2 * MNK / 494.5),
    "f32 product": (linear("f32", "matmul(x, w.T, compute=f32)"), (M, N, K), "fp32", 2 * MNK / 67),
    "tf32x3 product": (
        linear("f32", "matmul(x, w.T, compute=tf32x3)"),
        (M, N, K),
        "tensor.tf32",
        6 * MNK / 494.5,
    ),
    "e4m3 product": (linear("e4m3", out="bf16"), (M, N, K), "tensor.e4m3", 2 * MNK / 1979),
    "s8 product": (linear("s8", out="s32"), (M, N, K), "tensor.s8", 2 * MNK / 1979),
    "bf16 cast to f32": (
        linear("bf16", "matmul(cast(x, f32), cast(w, f32).T, compute=f32)", out="f32"),
        (M, N, K),
        "tensor.bf16",
        2 * MNK / 989.5,
    ),
    "e4m3 cast to f32": (
        linear("e4m3", "matmul(cast(x, f32), cast(w.T, f32), compute=tf32x3)", out="f32"),
        (M, N, K),
        "tensor.e4m3",
        2 * MNK / 1979,
    ),
    "s8 cast to bf16": (
        linear("s8", "cast(x, bf16) @ cast(w.T, bf16)", out="bf16"),
        (M, N, K),
        "tensor.s8",
        2 * MNK / 1979,
    ),
    "f32 with bf16 cast to it": (
        linear("bf16", "matmul(cast(x, f32), v, compute=f32)", ", v: f32[K, N]", "f32"),
        (M, N, K),
        "fp32",
        2 * MNK / 67,
    ),
    "a broadcast sum of bf16": (
        linear("bf16", "sum(x[:, None, :] * w[None, :, :], axis=2)", out="f32"),
        (M, N, K),
        "tensor.bf16",
        2 * MNK / 989.5,
    ),
    "a broadcast sum of f32": (
        linear("f32", "sum(3 * w[None, :, :] * x[:, None, :], axis=-1)"),
        (M, N, K),
        "tensor.tf32",
        6 * MNK / 494.5,
    ),
    "a dot product of each row": (
        "kernel f[M, N](x: f32[M, N], y: f32[M, N]) -> f32[M] { return sum(x * y, axis=1) }",
        (M, N),
        DRAM,
        (8 * M * N + 4 * M) / 4.8,
    ),
    "a sum of a product": (
        "kernel f[M, N, K](x: f32[M, K], w: f32[N, K]) -> f32[M] { return sum(x @ w.T, axis=1) }",
        (16, N, K),
        DRAM,
        4 * (16 * K + N * K + 16) / 4.8,
    ),
    "one row": (linear("bf16"), (1, N, K), DRAM, 2 * (K + N * K + N) / 4.8),
    "sixteen rows": (linear("bf16"), (16, N, K), DRAM, 2 * (16 * K + N * K + 16 * N) / 4.8),
    "bias and gelu": (
        linear("bf16", "gelu(x @ w.T + b)", ", b: bf16[N]"),
        (M, N, K),
        "tensor.bf16",
        2 * MNK / 989.5,
    ),
    "row of bias": (
        linear("bf16", "x @ w.T + b", ", b: f32[N]"),
        (1, N, K),
        DRAM,
        (2 * (K + N * K + N) + 4 * N) / 4.8,
    ),
    "gated": (
        linear("bf16", "silu(x @ w.T) * (x @ v.T)", ", v: bf16[N, K]"),
        (M, N, K),
        "tensor.bf16",
        4 * MNK / 989.5,
    ),
    "residual of one row": (
        linear("bf16", "x @ w.T + r", ", r: bf16[M, N]"),
        (1, N, K),
        DRAM,
        2 * (K + N * K + 2 * N) / 4.8,
    ),
    "copy": ("kernel f[M, N](x: f32[M, N]) -> f32[M, N] { return x * 2 }", (M, N), DRAM, 8 * M * N / 4.8),
    "sum of rows": (
        "kernel f[M, N](x: f32[M, N]) -> f32[M] { return sum(x, axis=-1) }",
        (M, N),
        DRAM,
        (4 * M * N + 4 * M) / 4.8,
    ),
    "bf16 relu": (
        "kernel f[M, N](x: bf16[M, N]) -> bf16[M, N] { return relu(x) }",
        (M, N),
        DRAM,
        4 * M * N / 4.8,
    ),
    "add": (
        "kernel f[M, N](x: f32[M, N], y: f32[M, N]) -> f32[M, N] { return x + y }",
        (M, N),
        DRAM,
        12 * M * N / 4.8,
    ),
    "row added": (
        "kernel f[M, N](x: f32[M, N], y: f32[N]) -> f32[M, N] { return x + y }",
        (M, N),
        DRAM,
        (8 * M * N + 4 * N) / 4.8,
    ),
    "softmax": (
        "kernel f[M, N](x: f32[M, N]) -> f32[M, N] {\n  e = exp(x - max(x, axis=-1)[:, None])\n"
        "  return e / sum(e, axis=-1)[:, None]\n}",
        (M, N),
        DRAM,
        8 * M * N / 4.8,
    ),
    "unused input": (
        "kernel f[M, N](x: f32[M, N], y: f32[M, N]) -> f32[M, N] { return x * 2 + 0 * y }",
        (M, N),
        DRAM,
        8 * M * N / 4.8,
    ),
    "two products": (
        "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K], v: bf16[K, N]) -> bf16[M, K] {\n"
        "  return relu(x @ w.T) @ v.T\n}",
        (M, N, K),
        "tensor.bf16",
        4 * MNK / 989.5,
    ),
    "batches": (
        "kernel f[M, N, K](x: bf16[8, M, K], w: bf16[8, K, N]) -> bf16[8, M, N] { return x @ w }",
        (M, N, K),
        "tensor.bf16",
        16 * MNK / 989.5,
    ),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_bounds_are_those_computed_by_hand(name: str):
    program, sizes, unit, picoseconds = BY_HAND[name]
    found = sol(program, **dict(zip("MNK", sizes, strict=False)))
    assert found.bound.binding == unit
    assert found.bound.seconds == pytest.approx(picoseconds * 1e-12, rel=1e-6)


def test_twenty_bounds_or_more_are_checked():
    assert len(BY_HAND) >= 20


def test_stages_move_what_they_keep():
    text = "kernel f[M, N](x: bf16[M, N], w: bf16[N, N]) -> bf16[M, N] { return relu(x @ w.T) @ w.T }"
    found = sol(text, M=64, N=4096)
    assert [s.kind for s in found.stages] == ["contraction", "contraction"]
    matrix, weight = 2 * 64 * 4096, 2 * 4096 * 4096
    assert [s.bytes for s in found.stages] == [2 * matrix + weight] * 2
    assert found.bound.limit(DRAM).amount == 2 * matrix + weight  # pyright: ignore[reportOptionalMemberAccess]


def test_f32_products_are_bounded_in_both_arithmetics():
    found = sol(linear("f32"), M=M, N=N, K=K)
    assert [a.name for a in found.assumptions] == [
        "as declared",
        "f32 products in tf32",
        "f32 products in f32",
    ]
    tf32, full = (a.bound.seconds for a in found.assumptions[1:])
    assert full / tf32 == pytest.approx(494.5 / 67)
    assert len(sol(linear("bf16"), M=M, N=N, K=K).assumptions) == 1
    exact = sol(linear("f32", "matmul(x, w.T, compute=tf32x3)"), M=M, N=N, K=K)
    assert exact.assumptions[1].bound.seconds == pytest.approx(tf32)


ZEROS = {
    "x - x": "x - x",
    "0 * x": "0 * x",
    "zeros through relu": "relu(x - x)",
    "a product with zeros": "(x - x) @ x.T @ x",
    "a clamp whose limits meet": "clamp(min(x, 0), 0, 1)",
    "a clamp beyond a range": "max(tanh(x), 1)",
    "a clamp beyond sines": "max(sin(x), 1) * min(cos(x), -1)",
    "a clamp beyond angles": "max(atan2(x, x), 3.2)",
    "zeros through rounding": "trunc(round(floor(sin(tan(sign(x - x))))))",
    "the mean of a range that is a point": "mean(min(relu(x), 0), axis=-1)[:, None] + 0 * x",
}


@pytest.mark.parametrize("body", ZEROS.values(), ids=ZEROS)
def test_what_is_zero_needs_no_input(body: str):
    found = sol(f"kernel f[M](x: f32[M, M]) -> f32[M, M] {{ return {body} }}", M=1024)
    assert found.bound.limit(DRAM).amount == 4 * 1024 * 1024  # pyright: ignore[reportOptionalMemberAccess]
    assert any("whatever the inputs are" in fact for fact in found.facts)


PICKED = {
    # name: (parameters, result, expression, bytes that are read)
    "rows of a table": ("t: bf16[50000, 64], i: s32[M]", "bf16[M, 64]", "gather(t, i)", 4 * 100 + 2 * 6400),
    "more rows than there are": (
        "t: bf16[30, 64], i: s32[M]",
        "bf16[M, 64]",
        "gather(t, i)",
        4 * 100 + 2 * 1920,
    ),
    "rows, and all of it": (
        "t: bf16[50000, 64], i: s32[M]",
        "f32[M, 64]",
        "gather(t, i) + sum(t)",
        4 * 100 + 2 * 50000 * 64,
    ),
    "columns": ("x: f32[M, 512]", "f32[M, 8]", "x[:, :8] * 2", 4 * 800),
    "two columns": ("x: f32[M, 512]", "f32[M, 8]", "x[:, :8] * x[:, 8:16]", 4 * 1600),
    "an element of each row": (
        "x: f32[M, 512], i: s32[M, 1]",
        "f32[M, 1]",
        "take_along(x, i, axis=1)",
        4 * 200,
    ),
}


@pytest.mark.parametrize("name", PICKED)
def test_what_is_picked_is_read(name: str):
    parameters, out, body, read = PICKED[name]
    found = sol(f"kernel f[M]({parameters}) -> {out} {{ return {body} }}", M=100)
    written = 2 if out.startswith("bf16") else 4
    for extent in out.split("[")[1].rstrip("]").split(", "):
        written *= 100 if extent == "M" else int(extent)
    assert found.bound.limit(DRAM).amount == read + written  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize(
    "body", ["clamp(x, 0, 1)", "max(sigmoid(x), 0.5)", "sum(relu(x), axis=-1)[:, None] + x"]
)
def test_what_has_a_range_still_needs_its_input(body: str):
    found = sol(f"kernel f[M](x: f32[M, M]) -> f32[M, M] {{ return {body} }}", M=1024)
    assert found.bound.limit(DRAM).amount == 8 * 1024 * 1024  # pyright: ignore[reportOptionalMemberAccess]
    assert not found.facts


def _structured(a: Pattern, b: Pattern) -> Sol:
    text = "kernel f[M](a: f32[M, M], b: f32[M, M]) -> f32[M, M] { return matmul(a, b, compute=f32) }"
    program, sink = parse(Source("t.mcu", text))
    module = lower(program, sink)
    inputs = {"a": Structure(a), "b": Structure(b)}
    (found,) = analyse_module(module, H200, {"M": 64}, inputs)
    return found


@pytest.mark.parametrize("a", Pattern)
@pytest.mark.parametrize("b", Pattern)
def test_structured_products_count_what_is_not_zero(a: Pattern, b: Pattern):
    n = 12
    inside = {
        Pattern.GENERAL: lambda i, j: True,
        Pattern.SYMMETRIC: lambda i, j: True,
        Pattern.LOWER: lambda i, j: i >= j,
        Pattern.UPPER: lambda i, j: i <= j,
        Pattern.DIAGONAL: lambda i, j: i == j,
    }
    r = range(n)
    count = sum(1 for i in r for j in r for k in r if inside[a](i, k) and inside[b](k, j))
    found = product_share(Structure(a), Structure(b), n, n, n) * n**3
    # Products of a diagonal and a triangle need fewer still: a bound may be lower, never higher.
    assert found == count or (Pattern.DIAGONAL in (a, b) and found >= count)


@pytest.mark.parametrize(("function", "share"), [("tril", 1 / 6), ("triu", 1 / 6), ("abs", 1)])
def test_triangles_that_a_program_makes(function: str, share: float):
    text = "kernel f[M](a: f32[M, M], b: f32[M, M]) -> f32[M, M] { return matmul(%s(a), %s(b), compute=f32) }"
    found = sol(text % (function, function), M=1024)
    assert found.bound.limit("fp32").amount == pytest.approx(share * 2 * 1024**3, rel=0.02)  # pyright: ignore[reportOptionalMemberAccess]


def test_triangular_inputs_are_read_by_half():
    whole, half = _structured(Pattern.GENERAL, Pattern.GENERAL), _structured(Pattern.LOWER, Pattern.LOWER)
    sizes = [s.bound.limit(DRAM).amount for s in (whole, half)]  # pyright: ignore[reportOptionalMemberAccess]
    assert sizes == [3 * 4 * 64 * 64, 4 * (64 * 65 + 64 * 64)]
    assert half.facts == ("a is lower triangular", "b is lower triangular")


@given(st.integers(1, 9000), st.integers(1, 9000), st.integers(1, 9000), st.sampled_from(sorted(cards())))
def test_a_bound_grows_with_the_problem_and_is_no_smaller_than_any_limit(m: int, n: int, k: int, name: str):
    card = cards()[name]
    found, larger = (sol(linear("bf16"), card, M=m * s, N=n * s, K=k) for s in (1, 2))
    assert larger.bound.seconds > found.bound.seconds
    assert all(x.seconds <= found.bound.seconds for x in found.bound.limits)
    assert found.bound.seconds >= found.bound.limit(DRAM).seconds  # pyright: ignore[reportOptionalMemberAccess]


def test_the_score_is_a_half_at_the_baseline_and_one_at_the_bound():
    found = sol(linear("bf16"), M=M, N=N, K=K)
    bound = found.bound.seconds
    assert found.score(2 * bound, 2 * bound) == pytest.approx(0.5)
    assert found.score(bound, 2 * bound) == pytest.approx(1.0)
    assert found.score(3 * bound, 2 * bound) == pytest.approx(1 / 3)


def test_a_time_below_the_bound_is_reported():
    found = sol(linear("bf16"), M=M, N=N, K=K)
    ms = found.bound.seconds * 1e3
    assert not list(sol_report.warnings(found, 0.95 * ms))
    (warning,) = sol_report.warnings(found, 0.5 * ms)
    assert warning.code == "MU5407" and "50%" in warning.message


@pytest.mark.parametrize(("elements", "left"), [(5_242_880, 0), (52_428_800, 4 * 52_428_800 - 50 * 2**20)])
def test_results_may_still_be_in_the_cache_at_the_end(elements: int, left: int):
    """`relu` of f32 on an H200: of its results as many bytes as L2 holds need not reach memory in time."""
    found = sol("kernel f[N](x: f32[N]) -> f32[N] { return relu(x) }\n", N=elements)
    dram = found.bound.limit(DRAM)
    assert dram is not None and dram.amount == 8 * elements and H200.device.l2_bytes == 50 * 2**20
    assert found.least_seconds == pytest.approx((4 * elements + left) / dram.rate)
    report = sol_report.as_json(found)
    bound = lowest(report, "declared")
    assert bound is not None and bound.ms == pytest.approx(found.bound.seconds * 1e3)
    assert bound.least_ms == pytest.approx(found.least_seconds * 1e3)
    assert not list(sol_report.warnings(found, 0.95 * bound.least_ms))
    assert list(sol_report.warnings(found, 0.85 * bound.least_ms))


def test_the_cache_lowers_no_bound_of_arithmetic():
    found = sol(linear("bf16"), M=M, N=N, K=K)
    assert found.cached > 0 and found.least_seconds == found.bound.seconds


def test_what_was_measured_replaces_the_datasheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    store(H200.device, {"dram_bandwidth": 4.2e12}, {"torch": "2"}, "2026-11-21")
    card = get_card("NVIDIA H200")
    rates = Rates(card.device, card.target.facts.multiprocessor)
    assert rates[DRAM] == 4.8e12 and Rates(card.device, rates.sm, measured=True)[DRAM] == 4.2e12
    calibration_path(H200.device).write_text("[]")
    with pytest.raises(DiagnosticError, match="MU5402"):
        get_card("h200")


def test_the_command_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "f.mcu"
    file.write_text(linear("bf16"))
    dims = "--dims=M=4096,N=14336,K=4096"
    assert main(["sol", str(file), dims, "--measured=0.6", "--baseline=0.8"]) == 0
    text = capsys.readouterr().out
    assert "bound 486.1 us, by tensor.bf16" in text and "SOL score 0.734" in text
    assert main(["sol", str(file), dims, "--json", "--measured=0.1"]) == 0
    out = capsys.readouterr()
    report = json.loads(out.out)
    assert report["binding"] == "tensor.bf16" and report["faster_than_light"]
    assert "MU5407" in out.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--device=h20"], "MU5401"),
        ([], "MU5403"),
        (["--dims=Q=1"], "MU6051"),
        (["--kernel=g", "--dims=M=1,N=1,K=1"], "MU5406"),
        (["--measured=0", "--dims=M=1,N=1,K=1"], "MU5001"),
        (["--plot=/nowhere/x.png", "--dims=M=1,N=1,K=1"], "MU5012"),
        (["--plot=x.mcu", "--dims=M=1,N=1,K=1"], "MU540"),
    ],
)
def test_mistakes_are_errors_with_codes(
    words: list[str], code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "f.mcu"
    file.write_text(linear("bf16"))
    assert main(["sol", str(file), *words]) != 0
    assert code in capsys.readouterr().err


def test_a_roofline_is_drawn():
    pytest.importorskip("matplotlib")
    from mucc.analysis.roofline import draw

    found = [sol(linear("bf16"), M=M, N=N, K=K)]
    assert draw("png", found, H200, 0.7).startswith(b"\x89PNG")
    assert b"<svg" in draw("svg", found, H200)
    with pytest.raises(ValueError, match="format"):
        draw("mcu", found, H200)


def test_cards_are_listed_and_shown(capsys: pytest.CaptureFixture[str]):
    assert main(["device"]) == 0
    listed = capsys.readouterr().out
    assert {"a100", "h100_pcie", "h100_sxm", "h200", "l40s", "rtx_4090", "b200"} <= {
        x.split()[0] for x in listed.splitlines()
    }
    assert main(["device", "show", "h200", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["datasheet"]["dram_bandwidth"] == 4.8e12
    assert main(["device", "show"]) == 2


def test_a_pytorch_problem_is_bounded(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("torch")
    file = tmp_path / "12_Layer.py"
    file.write_text(
        "import torch\n"
        "class Model(torch.nn.Module):\n"
        "    def __init__(self, n):\n"
        "        super().__init__()\n"
        "        self.f = torch.nn.Linear(n, n)\n"
        "        self.d = torch.nn.Dropout(0.5)\n"
        "    def forward(self, x):\n"
        "        return self.d(torch.relu(self.f(x)))\n"
        "def get_inputs():\n"
        "    return [torch.rand(128, 256)]\n"
        "def get_init_inputs():\n"
        "    return [256]\n"
    )
    assert main(["sol", str(file), "--json"]) == 0
    out = capsys.readouterr()
    report = json.loads(out.out)
    assert report["kernel"].startswith("layer")
    assert report["limits"]["fp32"]["amount"] == 2 * 128 * 256 * 256 + 2 * 128 * 256
    assert "MU5409" in out.err and "dropout" in out.err


def test_values_inside_of_a_module_need_not_pass_through_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Two kernels around a call of PyTorch: both read x and w, and the second what comes between."""
    pytest.importorskip("torch")
    file = tmp_path / "Pair.py"
    file.write_text(
        "import torch\n"
        "class Model(torch.nn.Module):\n"
        "    def __init__(self, n):\n"
        "        super().__init__()\n"
        "        self.w = torch.nn.Parameter(torch.rand(n, n))\n"
        "        self.d = torch.nn.Dropout(0.5)\n"
        "    def forward(self, x):\n"
        "        return self.d(torch.relu(x @ self.w)) @ self.w + x\n"
        "def get_inputs():\n"
        "    return [torch.rand(128, 256)]\n"
        "def get_init_inputs():\n"
        "    return [256]\n"
    )
    assert main(["sol", str(file), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["kernel"] == "pair"
    assert report["limits"]["dram"]["amount"] == 4 * (128 * 256 + 256 * 256 + 128 * 256)
    assert report["limits"]["fp32"]["amount"] == 2 * 2 * 128 * 256 * 256 + 2 * 128 * 256
    assert main(["sol", str(file), "--kernel", "pair_1", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert alone["limits"]["dram"]["amount"] == 4 * (128 * 256 + 256 * 256 + 2 * 128 * 256)
