"""Convolutions whose results are concatenated, as in a U-Net: one region, at odd sizes too."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn

_Module: Any = nn.Module


class Up(_Module):
    """The way up of a level of a U-Net: what is below is enlarged, and joins what was kept."""

    def __init__(self, outside: int, inside: int):
        _Module.__init__(self)
        self.norm = nn.BatchNorm2d(outside)
        self.up = nn.ConvTranspose2d(2 * inside, outside, 2, stride=2)

    def forward(self, kept: Any, below: Any) -> Any:
        return torch.cat([torch.relu(self.norm(kept)), self.up(below)], 1)


def inputs(outside: int, inside: int, height: int, width: int) -> tuple[Any, Any]:
    kept, below = torch.rand(2, outside, 2 * height, 2 * width), torch.rand(2, 2 * inside, height, width)
    return kept.to(memory_format=torch.channels_last), below.to(memory_format=torch.channels_last)


@pytest.mark.parametrize(("outside", "inside"), [(8, 8), (24, 4), (3, 5)])
def test_a_region_with_a_concatenation_computes_what_torch_does(outside: int, inside: int):
    import mucc

    torch.manual_seed(0)
    torch._dynamo.reset()
    model = Up(outside, inside).eval().to(memory_format=torch.channels_last)
    given = inputs(outside, inside, 5, 7)
    backend = mucc.torch_backend(interpret=True, margin=-1e9, rest="eager", fallback="error")
    with torch.no_grad():
        got, want = torch.compile(model, backend=backend)(*given), model(*given)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert got.stride() == want.stride()
    (program,) = backend.programs
    assert "concat(" in program.text() and "conv_transpose(" in program.text()


class Level(_Module):
    """A level of a U-Net, with what is below."""

    def __init__(self, outside: int, inside: int, below: Any):
        _Module.__init__(self)
        self.down, self.pool, self.below = convolutions(outside, inside), nn.MaxPool2d(2), below
        self.up = nn.ConvTranspose2d(2 * inside, inside, 2, stride=2)
        self.join = convolutions(2 * inside, inside)

    def forward(self, x: Any) -> Any:
        kept = self.down(x)
        return self.join(torch.cat([kept, self.up(self.below(self.pool(kept)))], 1))


def convolutions(outside: int, inside: int) -> Any:
    conv = nn.Conv2d(outside, inside, 3, padding=1, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(inside), nn.ReLU())


def test_a_u_net_computes_what_torch_does():
    import mucc

    torch.manual_seed(0)
    torch._dynamo.reset()
    model = Level(3, 8, Level(8, 16, convolutions(16, 32))).eval().to(memory_format=torch.channels_last)
    x = torch.rand(3, 3, 12, 20).to(memory_format=torch.channels_last)
    backend = mucc.torch_backend(interpret=True, margin=-1e9, rest="eager", fallback="error")
    with torch.no_grad():
        got, want = torch.compile(model, backend=backend)(x), model(x)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    (program,) = backend.programs
    assert len(program.kernels) == 7 and program.text().count("concat(") == 2


def test_what_is_read_before_it_is_concatenated_is_stored_by_itself():
    import mucc

    class Both(Up):
        def forward(self, kept: Any, below: Any) -> Any:
            up = self.up(below)
            return torch.cat([kept, up], 1), torch.cumsum(up, 2)

    model = Both(8, 8).eval().to(memory_format=torch.channels_last)
    with torch.no_grad():
        (graph,) = mucc.explain(model, *inputs(8, 8, 4, 4), margin=-1e9).graphs
    assert not any("aten.cat" in part.operations for part in graph.parts if part.is_kernel)


def test_a_large_concatenation_is_expected_to_gain_by_its_convolution():
    import mucc

    class Plain(Up):
        def forward(self, kept: Any, below: Any) -> Any:
            return torch.cat([kept, self.up(below)], 1)

    model = Plain(64, 64).bfloat16().eval().to(memory_format=torch.channels_last)
    given = [x.bfloat16() for x in inputs(64, 64, 128, 128)]
    with torch.no_grad():
        (graph,) = mucc.explain(model, *given, device="h100_sxm").graphs
    (part,) = (part for part in graph.parts if part.is_kernel)
    assert part.operations[-1] == "aten.cat" and part.gain > 0
