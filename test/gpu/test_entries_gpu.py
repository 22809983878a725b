"""Libraries with several schedules on a GPU: every entry computes what the kernel says."""

from __future__ import annotations

from typing import Any

import pytest

import mucc

torch: Any = pytest.importorskip("torch")

LINEAR = """
kernel linear[M, N, K](x: bf16[M, K], w: bf16[N, K], b: bf16[N]) -> bf16[M, N] {
    return relu(x @ w.T + b)
}
"""
MLP = """
kernel mlp[M, H](x: bf16[M, 512], w: bf16[H, 512], v: bf16[512, H]) -> bf16[M, 512] where H % 8 == 0 {
    stage h = relu(x @ w.T)
    return softmax(cast(h @ v.T, f32))
}
"""


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def drawn(*shape: int) -> Any:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) / shape[-1] ** 0.5


def test_each_entry_computes_the_kernel():
    kernel = mucc.compile(LINEAR, dims={"M": "1..8192", "N": 4096, "K": 4096}).linear
    taken: set[int] = set()
    for m in (1, 3, 8, 9, 60, 128, 129, 300, 512, 513, 2000, 8192):
        for n, k in ((4096, 4096), (1024, 320)):
            x, w, b = drawn(m, k), drawn(n, k), drawn(n)
            y = kernel(x, w, b)
            torch.testing.assert_close(
                y, torch.relu(torch.nn.functional.linear(x, w, b)), rtol=2e-2, atol=2e-2
            )
            taken.add(kernel.entry(x, w, b, y))
            assert kernel.entry(x, w, b, y) == kernel.info.entry({"M": m, "N": n, "K": k})
    assert taken == set(range(len(kernel.info.entries)))


def test_a_workspace_fits_the_entry():
    kernel = mucc.compile(MLP, dims=[{"M": 16, "H": 2048}, {"M": 4096, "H": 2048}]).mlp
    for m in (16, 4096, 1, 700):
        x, w, v = drawn(m, 512), drawn(2048, 512), drawn(512, 2048)
        want = torch.softmax((torch.relu(x @ w.T) @ v.T).float(), -1).to(torch.bfloat16)
        torch.testing.assert_close(kernel(x, w, v), want, rtol=2e-2, atol=2e-3)


def test_a_graph_of_a_range_serves_all_its_sizes():
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU()).cuda().to(torch.bfloat16)
    backend = mucc.torch_backend(fallback="error", regions="all", fx_graph_cache=False)
    torch._dynamo.reset()
    function = torch.compile(model, backend=backend)
    with torch.no_grad():
        for rows in (40, 2, 700, 4096):
            x = drawn(rows, 512)
            torch._dynamo.mark_dynamic(x, 0, min=2, max=4096)
            torch.testing.assert_close(function(x), model(x), rtol=2e-2, atol=2e-2)
    assert len(backend.programs) == 1


def test_frozen_products_are_joined():
    class Projections(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = (1024, 256, 256)
            self.layers = torch.nn.ModuleList(torch.nn.Linear(1024, n, bias=False) for n in widths)

        def forward(self, x: Any) -> Any:
            return [torch.sigmoid(layer(x)) for layer in self.layers]

    torch._dynamo.reset()
    model, x = Projections().cuda().to(torch.bfloat16).eval(), drawn(16, 1024)
    backend = mucc.torch_backend(fallback="error", fx_graph_cache=False)
    config: Any = torch._inductor.config
    with torch.no_grad(), config.patch(freezing=True):
        got = torch.compile(model, backend=backend)(x)
        for one, other in zip(got, model(x), strict=True):
            torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-2)
    assert backend.joined == 1
