"""`reproducible = on` on a GPU: the bits of a row alone, in batches of several sizes, and in many runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mucc

KERNELS = {
    "norm": ("[M, N=16384](x: bf16[M, N]) -> f32[M]", "sum(softmax(x) * x, axis=1)"),
    "sums": ("[M, N](x: f32[M, N]) -> f32[M]", "sum(x, axis=1)"),
    "columns": ("[N, M](x: f32[N, M]) -> f32[M]", "sum(x, axis=0)"),
    "scan": ("[M, N](x: f32[M, N]) -> f32[M, N]", "cumsum(x, axis=1)"),
    "product": (
        "[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> f32[M, N]\n    where K % 8 == 0, N % 8 == 0\n",
        "x @ w.T",
    ),
    "decode": ("[B, T](q: f16[B, 8, 1, 64], x: f16[B, 8, T, 64]) -> f16[B, 8, 1, 64]", "attention(q, x, x)"),
}
ON = "schedule {name} for sm_90a {{\n    reproducible = on\n}}\n"
TEXT = "\n".join(
    f"kernel {name}{types} {{\n    return {value}\n}}\n\n{ON.format(name=name)}"
    for name, (types, value) in KERNELS.items()
)
SIZES = (1, 2, 7, 64, 300)


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def module(torch: Any) -> Any:
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("needs a Hopper GPU")
    return mucc.compile(TEXT)


def calls(torch: Any, module: Any) -> dict[str, tuple[Callable[[Any], Any], Any]]:
    """Each kernel as a function of rows, and the most rows."""

    def drawn(*shape: int, dtype: Any) -> Any:
        return torch.randn(max(SIZES), *shape, device="cuda", dtype=dtype)

    w = torch.randn(512, 4096, device="cuda", dtype=torch.bfloat16)
    keys = drawn(8, 3000, 64, dtype=torch.float16)
    return {
        "norm": (module.norm, drawn(16384, dtype=torch.bfloat16)),
        "sums": (module.sums, drawn(200_000, dtype=torch.float32)),
        "columns": (lambda x: module.columns(x.T.contiguous()), drawn(50_000, dtype=torch.float32)),
        "scan": (module.scan, drawn(60_000, dtype=torch.float32)),
        "product": (lambda x: module.product(x, w), drawn(4096, dtype=torch.bfloat16)),
        "decode": (lambda q: module.decode(q, keys[: len(q)]), drawn(8, 1, 64, dtype=torch.float16)),
    }


@pytest.mark.parametrize("name", KERNELS)
def test_a_row_has_the_same_bits_alone_and_in_a_batch(torch: Any, module: Any, name: str):
    call, rows = calls(torch, module)[name]
    alone = call(rows[:1].contiguous())[0]
    for size in SIZES[1:]:
        assert torch.equal(call(rows[:size].contiguous())[0], alone), f"{size} rows"


@pytest.mark.parametrize("name", KERNELS)
def test_every_run_gives_the_same_bits(torch: Any, module: Any, name: str):
    call, rows = calls(torch, module)[name]
    first = call(rows)
    assert all(torch.equal(call(rows), first) for _ in range(20))
