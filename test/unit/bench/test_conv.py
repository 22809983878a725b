"""The layers of bench.conv: programs mean what functions of PyTorch compute; rows, figures, strategies."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bench.conv import __main__ as conv
from bench.conv import channels_first, level1, level2, measuring, networks, summary
from bench.conv.forcing import between_first, forced
from bench.conv.forms import Conv, ConvForm, form
from bench.layers.forms import Input
from bench.layers.measuring import draw, error_of
from bench.runner import Session
from mucc import frontend
from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.kernels.conv.op import ConvKernelOp, Strategy

torch: Any = pytest.importorskip("torch")


def small(layer: Conv) -> Conv:
    """Return a convolution of the same windows with few channels and positions."""
    spatial = tuple(
        6 + dilation * (size - 1)
        for size, dilation in zip(layer.window, layer.each(layer.dilation), strict=True)
    )
    groups = layer.groups if layer.groups <= 4 else 4
    channels = groups if layer.groups == layer.x[1] else 2 * groups
    outputs = groups * max(1, min(3, layer.outputs // layer.groups))
    return layer._replace(x=(2, channels, *spatial), outputs=outputs, groups=groups)


def forms() -> list[ConvForm]:
    """All layers with few channels and positions."""
    return [
        *(networks.network_form(n, small(c), d) for n, c in networks.LAYERS.items() for d in ("bf16", "f32")),
        *(form("level1", name, small(c), bias=False) for name, c in level1.CONVOLUTIONS.items()),
        level1.separable((2, 4, 6, 5), 3),
        channels_first.bottleneck("bottleneck", (2, 4, 5, 6), 3),
        *(small_level2(name, layer) for name, layer in level2.LAYERS.items()),
    ]


def small_level2(name: str, layer: level2.Layer) -> ConvForm:
    """Return a layer with few positions, and with as many channels as its norms need."""
    given = small(layer.conv)._replace(outputs=16)
    if "layer_norm" in layer.ours:
        given = given._replace(outputs=given.result[-1])
    layer = layer._replace(conv=given)
    inputs = layer.form(name).inputs
    result = layer.form(name).in_pytorch(torch)(*(torch.empty(i.shape, device="meta") for i in inputs)).shape
    return layer._replace(result=tuple(result)).form(name)


@pytest.mark.parametrize("case", forms(), ids=lambda case: case.key)
def test_a_program_means_what_pytorch_computes(case: ConvForm) -> None:
    program, sink = frontend.parse(Source(case.name, case.text))
    module = frontend.lower(program, sink)
    sink.raise_if_errors()
    (kernel,) = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    torch.manual_seed(1)
    wide = [draw(torch, i, "cpu").double() for i in case.inputs]
    expected = case.in_pytorch(torch)(*wide)
    (got,) = interpret_kernel(kernel, wide)
    assert tuple(got.shape) == tuple(expected.shape)
    assert error_of(torch, got, expected) < (1e-2 if case.inputs[0].dtype == "bf16" else 1e-6)


def test_full_sizes_are_those_of_pytorch_and_names_are_unique() -> None:
    assert len({case.key for case in conv.FORMS}) == len(conv.FORMS)
    for case in conv.FORMS:
        given = [torch.empty(i.shape, device="meta") for i in case.inputs]
        expected = case.in_pytorch(torch)(*given).shape
        assert case.results.endswith(f"[{', '.join(map(str, expected))}]"), case.key
        assert case.kernel.isidentifier()


def test_operations_of_a_layer_are_counted() -> None:
    assert Conv((2, 3, 8, 9), 5, (3, 2), 2, 1).flops == 2 * 2 * (4 * 5) * 6 * 3 * 5
    assert Conv((2, 3, 8), 4, (3,), 2, transposed=True).flops == 2 * 2 * 8 * 3 * 3 * 4
    assert Conv((2, 4, 8), 4, (3,), pad=1, groups=4).flops == 2 * 2 * 8 * 3 * 4


def drawn(torch: Any, wanted: Input) -> Any:
    return draw(torch, wanted, "cpu")


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("wrong", [False, True])
def test_a_row_has_times_and_errors_of_all(monkeypatch: pytest.MonkeyPatch, wrong: bool, last: bool) -> None:
    layer = Conv((2, 32, 6, 5), 3, (3, 3), pad=1)
    case = form("nhwc", "x", layer, channels_last=last, behind=("relu({})", "torch.relu({})"))
    monkeypatch.setattr(measuring, "draw", drawn)
    times = {"mucc": 1.0, "eager": 4.0, "nchw": 3.0, "nhwc": 2.0, "compile": 5.0}
    seen: dict[str, Any] = {}

    def captured(torch: Any, call: Any) -> Any:
        call()
        searched.append(torch.backends.cudnn.benchmark)
        return call

    def timed(torch: Any, calls: dict[str, Any], rounds: int) -> dict[str, float]:
        seen.update(calls)
        return {name: times[name] for name in calls}

    searched: list[bool] = []
    monkeypatch.setattr(measuring, "captured", captured)
    monkeypatch.setattr(measuring, "timed", timed)

    def kernel(*given: Any, out: Any = None) -> Any:
        y = case.in_pytorch(torch)(*given)
        if wrong:
            y[-1] *= 1.1
        return y.contiguous() if out is None else out.copy_(y)

    found = measuring.measure(Session(torch, 5, 1e6), kernel, case)
    assert list(seen) == ["mucc", "eager", "nchw", "nhwc"]
    assert searched == [False, False, True, True]
    assert (found["over_eager"], found["over_cudnn"]) == (4, 2)
    assert found["good"] is not wrong
    # Both orders hold the same numbers: channels are innermost in one.
    for name, innermost in (("nchw", False), ("nhwc", True)):
        x, w = seen[name].args[:2]
        assert x.stride(3 if last else 1) == (1 if innermost else 30)
        assert w.stride(3 if last else 1) == (1 if innermost else 9)
        assert error_of(torch, seen[name](), seen["eager"]()) < 1e-6
    assert ("WRONG" in summary.line({"group": "nhwc", "name": "x", **found})) is wrong


def test_figures_leave_out_what_is_wrong() -> None:
    def row(group: str, over: float, kind: str = "dense", **more: Any) -> dict[str, Any]:
        known = {"group": group, "name": "x_bf16", "kind": kind, "mucc_ms": 1.0, "good": True, "of_copy": 0.5}
        return {**known, "over_eager": over, "over_cudnn": over / 2, **more}

    found = summary.figures(
        [
            row("nhwc", 4.0),
            row("nhwc", 1.0),
            row("nhwc", 0.1, good=False),
            row("level1", 2.0, "transposed"),
            row("level1", 8.0, "depthwise"),
            {"group": "level2", "name": "y", "error": "no kernel"},
        ]
    )
    assert found["conv.layers"] == 6 and found["conv.wrong"] == 1 and found["conv.not_measured"] == 1
    assert (
        found["conv.nhwc_over_best_cudnn_geomean"] == found["conv.nhwc_bf16_over_best_cudnn_geomean"] == 1.0
    )
    assert found["conv.nhwc_over_best_cudnn_min"] == 0.5
    assert found["conv.level1_over_eager_geomean"] == 4.0
    assert found["conv.level1_transposed_over_eager_min"] == 2.0
    assert found["conv.level1_depthwise_of_copy_geomean"] == 0.5
    assert not any("level2" in name for name in found)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_strategy_is_forced_where_it_is_legal(strategy: Strategy) -> None:
    text = form("nhwc", "k", Conv((8, 64, 32, 32), 64, (3, 3)), dtype="bf16", channels_last=True).text
    odd = form("first", "k", Conv((8, 3, 32, 32), 64, (3, 3)), dtype="bf16", channels_last=True).text

    def chosen(text: str) -> Strategy:
        (program,) = compile_text(Source("k.mcu", text)).cutlass.body.block.ops
        assert isinstance(program, ProgramOp)
        (found,) = (op for op in program.kernels if isinstance(op, ConvKernelOp))
        return found.strategy.data

    usual = chosen(odd)
    with forced(strategy):
        other = strategy in (Strategy.MATRICES, Strategy.PLANES, Strategy.POSITIONS)
        assert chosen(text) is (Strategy.TILES if other else strategy)
        narrow = other or strategy is Strategy.WARPGROUPS
        assert chosen(odd) is (usual if narrow else strategy)
    assert chosen(odd) is usual


def test_channels_stay_first_between_layers_where_that_is_forced() -> None:
    (block,) = (one for one in channels_first.FORMS if one.name == "bottleneck_4_bf16")

    def stored() -> list[str]:
        emitted = compile_text(Source("k.mcu", block.text)).emit("cutlass")
        return re.findall(r"cutlass.workspace.*tensor<\[32, (.*?)\]", emitted)

    assert "14, 14, 256" in stored() and "256, 14, 14" not in stored()
    with between_first():
        assert "256, 14, 14" in stored()
