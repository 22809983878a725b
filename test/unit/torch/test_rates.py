"""Predicted times of what Inductor makes of networks, against profiles of an H100."""

from __future__ import annotations

from typing import Any, cast

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from mucc.target.devices import get_card  # noqa: E402 (what follows needs torch)
from mucc.torch.backend.expected import CALL, LAUNCH, costs_of  # noqa: E402
from mucc.torch.importer.partition import Formats  # noqa: E402

aten: Any = torch.ops.aten
COSTS = costs_of(get_card("h100_sxm"))


Shape = tuple[int, ...]


class _Graph:
    formats = Formats("f32", "tf32", "fused")


def called(target: Any, result: tuple[int, ...], *args: Any) -> float:
    """Predict the seconds of a call on bf16 tensors: those of the arguments that are shapes."""
    graph = torch.fx.Graph()

    def tensor(shape: tuple[int, ...]) -> Any:
        node = graph.placeholder("x")
        node.meta["val"] = torch.empty(shape, device="meta", dtype=torch.bfloat16)
        return node

    node = graph.call_function(
        target, tuple(tensor(cast("Shape", a)) if isinstance(a, tuple) else a for a in args)
    )
    node.meta["val"] = torch.empty(result, device="meta", dtype=torch.bfloat16)
    made: Any = _Graph()
    return COSTS.call(made, node)


def depthwise(batch: int, channels: int, extent: int, window: int, stride: int = 1) -> float:
    """Predict what a kernel of cuDNN takes on the GPU."""
    x, w = (batch, channels, extent, extent), (channels, 1, window, window)
    y = (batch, channels, extent // stride, extent // stride)
    given = (None, [stride] * 2, [window // 2] * 2, [1, 1], False, [0, 0], channels)
    return called(aten.convolution.default, y, x, w, *given) - LAUNCH


MOBILE = (
    *[(32, 112, 1), (96, 112, 2), (144, 56, 1), (144, 56, 2), (192, 28, 1), (192, 28, 1), (192, 28, 2)],
    *[*[(384, 14, 1)] * 4, *[(576, 14, 1)] * 2, (576, 14, 2), *[(960, 7, 1)] * 3],
)
EFFICIENT = (
    *[(3, 32, 112, 1), (3, 96, 112, 2), (3, 144, 56, 1), (5, 144, 56, 2), (5, 240, 28, 1), (3, 240, 28, 2)],
    *[*[(3, 480, 14, 1)] * 2, (5, 480, 14, 1), *[(5, 672, 14, 1)] * 2, (5, 672, 14, 2)],
    *[*[(5, 1152, 7, 1)] * 3, (3, 1152, 7, 1)],
)
NEXT = [(128, 56), (256, 28), (512, 14), (1024, 7)]


@pytest.mark.parametrize(
    ("predicted", "measured"),
    [
        (sum(depthwise(10, c, e, 3, s) for c, e, s in MOBILE), 119.7e-6),
        (sum(depthwise(10, c, e, w, s) for w, c, e, s in EFFICIENT), 140e-6),
        (3 * sum(depthwise(32, c, e, 7) for c, e in NEXT), 671.6e-6),
    ],
    ids=["MobileNet-V2", "EfficientNet-B0", "ConvNeXt-B"],
)
def test_depthwise_convolutions(predicted: float, measured: float):
    assert predicted == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize(
    ("m", "n", "k", "measured"),
    [
        (100352, 128, 512, 56.3e-6),
        (25088, 256, 1024, 23.9e-6),
        (6272, 512, 2048, 23.9e-6),
        (1568, 1024, 4096, 21.4e-6),
    ],
)
def test_products(m: int, n: int, k: int, measured: float):
    found = called(aten.addmm.default, (m, n), (n,), (m, k), (k, n)) - (CALL - LAUNCH)
    assert found == pytest.approx(measured, rel=0.2)


@pytest.mark.parametrize(
    ("elements", "tensors", "measured"),
    [
        (100352 * 512, 2, 77.5e-6),
        (25088 * 1024, 2, 40.3e-6),
        (1568 * 4096, 2, 9.67e-6),
        (100352 * 128, 3, 29.4e-6),
    ],
    ids=["gelu 1", "gelu 2", "gelu 4", "scale and residual 1"],
)
def test_fused_kernels(elements: int, tensors: int, measured: float):
    assert COSTS.moved(2 * elements * tensors) == pytest.approx(measured, rel=0.1)
