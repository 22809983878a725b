"""Convolutions of graphs of dynamo, channels last: what they compute, and how results lie in memory."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn


pytestmark = pytest.mark.usefixtures("compiled_anew")


class Network(nn.Module):
    def __init__(self, groups: int = 1, viewed: bool = False):
        nn.Module.__init__(self)
        self.first = nn.Conv2d(8, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, groups=groups)
        self.head = nn.Linear(32 * 36, 10)
        self.viewed = viewed

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.first(x))
        z = torch.relu(self.second(y))
        return y, z.transpose(1, 3), self.head(z.view(z.shape[0], -1) if self.viewed else z.flatten(1))


def strides(module: Any, x: Any, grad: bool = False) -> list[bool]:
    """Compile by mucc, compare with PyTorch, and return which convolutions read channels last."""
    from mucc.torch.backend.backend import torch_backend

    backend = torch_backend(interpret=True, rest="eager", fallback="error")
    with torch.set_grad_enabled(grad):
        got, wanted = torch.compile(module, backend=backend)(x), module(x)
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b)
        assert a.stride() == b.stride()
    nodes = backend.divided[0].program.graph.captured.graph.nodes
    given = [n.args[0].meta["val"] for n in nodes if "aten.convolution" in str(n.target)]
    return [v.is_contiguous(memory_format=torch.channels_last) for v in given]


def test_activations_are_channels_last_and_results_as_before():
    assert strides(Network().eval(), torch.randn(2, 8, 8, 8)) == [True, True]


def test_inputs_that_are_channels_last_stay_so():
    x = torch.randn(2, 8, 8, 8).to(memory_format=torch.channels_last)
    assert strides(Network().eval(), x) == [True, True]


@pytest.mark.parametrize("module", [Network(viewed=True), Network(groups=4)], ids=["view", "groups"])
def test_graphs_that_stay_as_they_are(module: Any):
    assert strides(module.eval(), torch.randn(2, 8, 8, 8)) == [False, False]


def test_graphs_with_gradients_stay_as_they_are():
    assert strides(Network().eval(), torch.randn(2, 8, 8, 8), grad=True) == [False, False]
