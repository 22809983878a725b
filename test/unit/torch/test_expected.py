"""What Inductor makes code of its own for, as times of graphs are predicted."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn

from bench.common import RESULTS  # noqa: E402
from bench.conv.networks import LAYERS as LAYERS_OF_NETWORKS  # noqa: E402
from bench.conv.networks import network_form  # noqa: E402
from mucc.target.devices import get_card  # noqa: E402 (torch is needed first)
from mucc.torch.backend.expected import Costs  # noqa: E402
from mucc.torch.backend.fusible import is_fused  # noqa: E402
from mucc.torch.importer.program import formats  # noqa: E402

aten: Any = torch.ops.aten


@pytest.mark.parametrize(
    ("target", "shape", "args", "fused"),
    [
        (aten.avg_pool2d.default, (2, 4, 12, 12), ([3, 3], [2, 2]), True),
        (aten.avg_pool2d.default, (2, 4, 12, 12), ([6, 6],), True),
        (aten.avg_pool2d.default, (2, 4, 12, 12), ([6, 6], []), True),
        (aten.avg_pool2d.default, (2, 4, 12, 12), ([6, 6], [2, 2]), False),
        (aten.avg_pool3d.default, (2, 4, 8, 8, 8), ([3, 3, 3], [1, 1, 1]), False),
        (aten._adaptive_avg_pool2d.default, (2, 4, 7, 7), ([7, 7],), True),
        (aten._adaptive_avg_pool2d.default, (2, 4, 56, 56), ([1, 1],), True),
        (aten._adaptive_avg_pool2d.default, (2, 4, 10, 10), ([7, 7],), True),
        (aten._adaptive_avg_pool2d.default, (2, 4, 60, 60), ([7, 7],), False),
        (aten._adaptive_avg_pool3d.default, (2, 4, 8, 8, 8), ([1, 1, 1],), False),
    ],
)
def test_pools_of_means_that_are_code_of_inductor(
    target: Any, shape: tuple[int, ...], args: tuple[Any, ...], fused: bool
):
    """As `avg_pool2d` and `_adaptive_avg_pool2d` of Inductor's lowering decide."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(shape, device="meta")
    node = graph.call_function(target, (x, *args))
    assert is_fused(node) == fused


Layer = tuple[int, int, int, int, int, int, bool]
"""Batch, channels, extent of both spatial axes, channels of the result, window, stride, and if transposed."""


@pytest.mark.parametrize(
    ("layers", "measured"),
    [
        ([(8, 64, 256, 64, 3, 1, False)] * 2 + [(8, 128, 256, 64, 3, 1, False)], 342.6),
        (
            [
                (8, 64, 128, 128, 3, 1, False),
                (8, 128, 64, 256, 3, 1, False),
                (8, 256, 32, 512, 3, 1, False),
                *[(8, channels, 16384 // channels, channels, 3, 1, False) for channels in (128, 256, 512)]
                * 2,
                *[(8, 2 * outputs, 16384 // outputs, outputs, 3, 1, False) for outputs in (128, 256, 512)],
            ],
            728.5,
        ),
        ([(8, 2 * outputs, 8192 // outputs, outputs, 2, 2, True) for outputs in (64, 128, 256, 512)], 142.7),
        ([(8, 64, 256, 2, 1, 1, False)], 68.0),
        ([(8, 3, 256, 64, 3, 1, False)], 79.3 + 8.8 / 2),
        ([(64, 3, 224, 64, 7, 2, False)], 388.4 + 55.5),
        ([(64, 64, 56, 64, 3, 1, False)] * 3, 124.9),
        ([(64, 64, 56, 256, 1, 1, False)] * 5, 216.8),
        ([(64, 256, 56, 64, 1, 1, False)] * 3, 113.3),
        ([(64, 256, 14, 1024, 1, 1, False)] * 10, 184.9),
    ],
)
def test_times_of_cudnn_are_near_measured_ones(layers: list[Layer], measured: float):
    """Microseconds of U-Net and ResNet-50 in bf16 by Inductor on an H100 (`bench.models --profiles`)."""
    costs = Costs(get_card("h100_sxm"))
    graph: Any = SimpleNamespace(formats=formats(None, "fused"))
    expected = sum(costs.call(graph, convolution(*layer)) for layer in layers) * 1e6
    assert 0.75 * measured < expected < 1.3 * measured


LAYERS = ("2_3x3", "3_3x3_stride2", "3_skip", "4_expand", "5_3x3", "5_reduce")


@pytest.mark.parametrize(
    "name", [*(f"resnet50_{layer}" for layer in LAYERS), "unet_1_3x3", "unet_5_3x3", "unet_up_2x2"]
)
def test_times_of_kernels_are_near_measured_ones(name: str):
    """Few blocks take less beside their products than the many of large layers, which constants are fitted
    to: layers of 7x7 positions are expected to take 1.36 and 1.44 of their times."""
    result = json.loads((RESULTS / "h100_sxm" / "conv.json").read_text())
    (measured,) = (r for r in result["rows"] if (r["group"], r["name"]) == ("nhwc", f"{name}_bf16"))
    form = network_form(name, LAYERS_OF_NETWORKS[name], "bf16")
    expected = Costs(get_card("h100_sxm")).kernel(form.text, {}).seconds * 1e3
    assert 0.75 * measured["mucc_ms"] < expected < (1.5 if "_5_" in name else 1.3) * measured["mucc_ms"]


def convolution(
    batch: int, channels: int, extent: int, outputs: int, window: int, stride: int, transposed: bool
) -> Any:
    """Return a node as Inductor has it, on tensors without memory, padded to keep the extents."""
    graph = torch.fx.Graph()
    x, w = graph.placeholder("x"), graph.placeholder("w")
    pair = (channels, outputs) if transposed else (outputs, channels)
    x.meta["val"] = torch.empty(batch, channels, extent, extent, dtype=torch.bfloat16, device="meta")
    w.meta["val"] = torch.empty(*pair, window, window, dtype=torch.bfloat16, device="meta")
    pad = [0 if transposed else window // 2] * 2
    args = ([stride] * 2, pad, [1, 1], transposed, [0, 0], 1)
    node = graph.call_function(aten.convolution.default, (x, w, None, *args))
    node.meta["val"] = aten.convolution(x.meta["val"], w.meta["val"], None, *args)
    return node


def test_a_norm_before_a_pool_is_part_of_the_convolution():
    """Inductor stores what is computed of several values before a pool reads it by windows."""
    import mucc

    layers = nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    model = nn.Sequential(*layers).bfloat16().eval().to(memory_format=torch.channels_last)
    x = torch.rand(2, 64, 64, 64).bfloat16().to(memory_format=torch.channels_last)
    with torch.no_grad():
        (graph,) = mucc.explain(model, x, margin=-1e9, device="h100_sxm").graphs
    (part,) = (part for part in graph.parts if part.is_kernel)
    assert "aten.relu" in part.operations and "aten.convolution" in part.operations


def test_a_pool_that_changes_nothing_is_no_region():
    """VGG has one between its convolutions and its linear layers, which costs Inductor nothing."""
    import mucc

    model = torch.nn.Sequential(torch.nn.MaxPool2d(2), torch.nn.AdaptiveAvgPool2d(7))
    with torch.no_grad():
        (graph,) = mucc.explain(model.bfloat16(), torch.rand(10, 512, 14, 14).bfloat16()).graphs
    assert not any(part.is_kernel for part in graph.parts)
