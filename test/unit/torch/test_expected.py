"""What Inductor makes code of its own for, as times of graphs are predicted."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from mucc.torch.backend.expected import is_fused  # noqa: E402 (it needs torch)

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


def test_a_pool_that_changes_nothing_is_no_region():
    """VGG has one between its convolutions and its linear layers, which costs Inductor nothing."""
    import mucc

    model = torch.nn.Sequential(torch.nn.MaxPool2d(2), torch.nn.AdaptiveAvgPool2d(7))
    with torch.no_grad():
        (graph,) = mucc.explain(model.bfloat16(), torch.rand(10, 512, 14, 14).bfloat16()).graphs
    assert not any(part.is_kernel for part in graph.parts)
