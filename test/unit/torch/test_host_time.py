"""Regions that save time of the GPU and cost the host more: what is taken depends on who launches kernels."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn

from inductor import backend  # noqa: E402 (it needs torch)

from mucc.torch.backend.expected import Costs, Predicted  # noqa: E402
from mucc.torch.backend.host_time import LAUNCH, LIBRARY, NEXT, Cost, launching  # noqa: E402
from mucc.torch.backend.passes import RegionsPass  # noqa: E402
from mucc.torch.backend.regions import HOST  # noqa: E402

pytestmark = pytest.mark.usefixtures("compiled_anew")


def _choice(rows: int, kernels: int, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[int, set[str]]:
    """Choose for a product with GELU, as if a call of it took no GPU time and launched so many kernels.

    Returns how many regions are taken, and the reasons against others. PyTorch runs the graph.
    """
    monkeypatch.setattr(RegionsPass, "apply", lambda *_: [])
    monkeypatch.setattr(Costs, "kernel", lambda *_: Predicted(1e-8, kernels))
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU()).to(torch.bfloat16)
    made = backend(**options)
    with torch.no_grad():
        torch.compile(model, backend=made)(torch.rand(rows, 64).to(torch.bfloat16))
    (divided,) = made.divided
    decisions = divided.choice.decisions
    return len(divided.choice.kernels), {d.reason for d in decisions if not d.taken}


def test_a_call_costs_the_host_its_launches():
    assert launching(1) == LAUNCH and launching(3) == pytest.approx(LAUNCH + 2 * NEXT)
    assert Predicted(0.0, 2, copies=3).host == pytest.approx(4 * LAUNCH + NEXT)
    assert Cost(1e-5, 2e-5).is_bound_by_host and not Cost(2e-5, 1e-5).is_bound_by_host


def test_what_the_host_would_launch_later_is_left(monkeypatch: pytest.MonkeyPatch):
    assert launching(9) > LIBRARY + LAUNCH, "of PyTorch there are a product and a fused kernel"
    assert _choice(64, 9, monkeypatch) == (0, {HOST})


@pytest.mark.parametrize(
    ("rows", "kernels", "options"),
    [
        (64, 2, {}),
        (64, 9, {"mode": "reduce-overhead"}),
        (64, 9, {"margin": -0.5}),
        (1 << 20, 9, {}),
    ],
    ids=["few launches", "CUDA graphs", "regions that lose", "as slow as the GPU"],
)
def test_the_host_does_not_count_where_it_is_not_slower(
    rows: int, kernels: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    assert _choice(rows, kernels, monkeypatch, **options) == (1, set())
