"""Memory order in torch.compile: channels last, operands with turned axes, embedded images."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn
F: Any = torch.nn.functional

from inductor import Graphs, backend, calls  # noqa: E402 (it needs torch)

pytestmark = pytest.mark.usefixtures("compiled_anew")


class _Vision(nn.Module):
    """Convolutions as vision models have them: a stem, a residual of another width, layer scales."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16)
        self.inner, self.inner_norm = nn.Conv2d(16, 16, 1), nn.BatchNorm2d(16)
        self.wide, self.skip = nn.Conv2d(16, 32, 3, 2, 1), nn.Conv2d(16, 32, 1, 2, bias=False)
        self.deep, self.scale = nn.Conv2d(32, 32, 7, 1, 3, groups=32), nn.Parameter(torch.rand(32, 1, 1))
        self.up = nn.ConvTranspose2d(32, 8, 2, stride=2)

    def forward(self, x: Any) -> Any:
        x = F.relu(self.norm(self.stem(x)))
        y = F.relu(self.inner_norm(self.inner(x)))
        y = F.relu(F.silu(self.wide(y)) + self.skip(x))
        gate = torch.sigmoid(y.mean((2, 3), keepdim=True))
        return self.up(y * gate + self.scale * self.deep(y)), y


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_channels_last_stay_last_without_copies(dtype: str, monkeypatch: pytest.MonkeyPatch):
    model = _Vision().eval()
    for norm in (model.norm, model.inner_norm):
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    model.to(memory_format=torch.channels_last).to(getattr(torch, dtype))
    x = torch.rand(2, 3, 21, 13).to(memory_format=torch.channels_last).to(getattr(torch, dtype))
    graphs, made = Graphs(monkeypatch), backend(margin=-100.0)
    with torch.no_grad():
        got, expected = torch.compile(model, backend=made)(x), model(x)
    tolerance = 1e-5 if dtype == "float32" else 3e-2
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
        assert a.stride() == b.stride() and a.is_contiguous(memory_format=torch.channels_last)
    assert calls(made) >= 5 and "aten.convolution.default" not in graphs.targets()
    assert "aten.clone.default" not in graphs.targets()


def test_operands_that_are_turned_are_read_where_they_lie(monkeypatch: pytest.MonkeyPatch):
    """A matrix with its axes exchanged is passed as it lies, and so is a result that is to lie so."""

    def f(x: Any, w: Any, y: Any) -> Any:
        return F.gelu(x.t() @ w).t() + y

    x, w, y = torch.rand(64, 32), torch.rand(64, 48), torch.rand(32, 48).t()
    graphs, made = Graphs(monkeypatch), backend(margin=-100.0)
    with torch.no_grad():
        got, expected = torch.compile(f, backend=made)(x, w, y), f(x, w, y)
    torch.testing.assert_close(got, expected)
    assert calls(made) == 1 and "aten.clone.default" not in graphs.targets()
    assert got.stride() == expected.stride()


def test_a_linear_layer_with_its_weights_as_rows_is_one_kernel_with_what_follows():
    """GPT-2 multiplies by weights [K, N] in a view of two axes, and returns to three."""

    def f(x: Any, w: Any, b: Any) -> Any:
        return F.gelu(torch.addmm(b, x.view(-1, 64), w).view(2, 1024, 1024), approximate="tanh")

    x, w, b = (torch.rand(s).to(torch.bfloat16) for s in ((2, 1024, 64), (64, 1024), (1024,)))
    made = backend()
    with torch.no_grad():
        got = torch.compile(f, backend=made)(x, w, b)
        torch.testing.assert_close(got, f(x, w, b), rtol=2e-2, atol=2e-2)
    (kernel,) = made.programs[0].kernels
    assert "approximate=tanh)" in made.programs[0].text()
    assert kernel.results[0].meta["val"].shape == (2, 1024, 1024)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("channels", "size", "stride", "is_product"), [(3, 4, 4, True), (3, 4, 2, False), (16, 4, 4, False)]
)
def test_embedded_images_are_products(channels: int, size: int, stride: int, is_product: bool, last: bool):
    layout = torch.channels_last if last else torch.contiguous_format
    layer = nn.Conv2d(channels, 32, size, stride).to(memory_format=layout)
    x = torch.rand(2, channels, 16, 24).to(memory_format=layout)
    made = backend(margin=-100.0)

    def f(x: Any) -> Any:
        return F.relu(layer(x)).flatten(2).transpose(1, 2)

    with torch.no_grad():
        torch.testing.assert_close(torch.compile(f, backend=made)(x), f(x), rtol=1e-4, atol=1e-4)
    text = made.programs[0].text()
    assert ("conv(" not in text and " @ " in text) is is_product
