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
        super().__init__()
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
