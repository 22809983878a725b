"""Outputs whose extents follow from dims, as Python allocates them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.library.signature import Manifest

torch: Any = pytest.importorskip("torch")

TEXT = """
kernel f[N, K, H](x: f32[2*N, K], y: s4[K, H*N]) -> (a: f32[N, K+1], b: f32[H*K], c: f32[2*N]) {
    s = sum(x) + sum(y)
    return broadcast(s, (N, K+1)), broadcast(s, (H*K,)), broadcast(s, (2*N,))
}
"""


def test_outputs_get_the_extents_that_follow() -> None:
    from mucc.runtime.torch_glue import TorchKernel

    (info,) = Manifest.parse(compile_text(Source("f.mcu", TEXT)).manifest).kernels
    kernel: Any = SimpleNamespace(info=info, ffi=None, name="f", digest="derived")
    glue = TorchKernel(kernel)
    x, y = torch.empty(6, 5, device="meta"), torch.empty(5, 3, device="meta", dtype=torch.uint8)
    assert [tuple(out.shape) for out in glue.allocate([x, y])] == [(3, 6), (10,), (6,)]
    assert [tuple(out.shape) for out in glue.run([x, y])] == [(3, 6), (10,), (6,)]


def test_symbolic_extents_stay_symbolic() -> None:
    from mucc.runtime.torch_glue import TorchKernel

    text = "kernel g[N](x: f32[2*N]) -> f32[N+1] { return broadcast(sum(x), (N+1,)) }"
    (info,) = Manifest.parse(compile_text(Source("g.mcu", text)).manifest).kernels
    kernel: Any = SimpleNamespace(info=info, ffi=None, name="g", digest="symbolic")
    op = TorchKernel(kernel).op

    class Calls(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return op(x)

    exported = torch.export.export(Calls(), (torch.empty(8),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    (result,) = [n for n in exported.graph.nodes if n.op == "call_function" and "g_" in str(n.target)]
    assert "s" in str(result.meta["val"].shape[0])
