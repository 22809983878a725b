"""Convolutions with padding of any mode become one kernel, and impossible windows stay with PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn
F: Any = nn.functional

from mucc.torch.importer.python import ImportedModule, from_torch  # noqa: E402


def verified(forward: Callable[[Any], Any], *shape: int) -> ImportedModule:
    """Import what a function computes of a tensor, and compare it with PyTorch."""
    module = type("Module", (nn.Module,), {"forward": lambda _, x: forward(x)})()
    found = from_torch(module, (torch.randn(shape),))
    assert all(d.is_good for d in found.verify(torch.randn(shape)))
    return found


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize(("axes", "sizes"), [(1, (4,)), (2, (3, 2)), (3, (2, 4, 3))])
def test_padding_of_any_mode_is_part_of_the_kernel(mode: str, axes: int, sizes: tuple[int, ...]):
    """Even windows have another element of padding behind than before."""
    make = getattr(nn, f"Conv{axes}d")
    conv = make(2, 3, sizes, padding="same", padding_mode=mode).eval()
    found = verified(conv, 1, 2, *(6, 5, 4)[:axes])
    assert len(found.program.kernels) == 1 and not found.program.opaque


@pytest.mark.parametrize("pad", [(1, 0, 0, 2), (2, 2, -1, 3), (-2, 1, 1, 1)])
def test_circular_padding_of_what_is_cut_off(pad: tuple[int, ...]):
    found = verified(lambda x: F.pad(x, pad, mode="circular"), 1, 2, 6, 5)
    assert "mode=circular" in found.text and not found.program.opaque


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        (lambda x: F.max_pool1d(x, 2, stride=2**31 - 1), "need more than 32 bits"),
    ],
)
def test_windows_that_the_language_refuses_stay_with_pytorch(forward: Callable[[Any], Any], reason: str):
    found = verified(forward, 1, 3, 8)
    (row,) = found.rows
    assert row.kernel is None and reason in (row.reason or "")
