"""Kernels called on views: of copies where they cannot read what they are given."""

from __future__ import annotations

from typing import Any

import pytest

from mucc.library.errors import MuccValueError

torch: Any = pytest.importorskip("torch", reason="needs torch")


class Library:
    """One kernel that takes rows which lie behind each other, and begin at multiples of 16 bytes."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def double(self, x: Any, factor: float = 2.0) -> Any:
        self.given.append(x)
        assert x.is_contiguous()
        if x.data_ptr() % 16:
            raise MuccValueError("MU6006", "misaligned")
        if factor < 0:
            raise MuccValueError("MU6009", "negative")
        return x * factor


@pytest.fixture
def library() -> Library:
    return Library()


def test_an_imported_driver_copies_views_that_kernels_cannot_read(library: Library):
    from mucc.runtime.imported import contiguous

    base = torch.arange(16.0).reshape(4, 4)
    double = contiguous(library).double
    for view in (base, base.T, base.reshape(-1)[1:], base[:, 1:]):
        assert torch.equal(double(view), view * 2)
    assert library.given[0] is base


def test_what_a_kernel_refuses_of_aligned_tensors_stays_refused(library: Library):
    from mucc.runtime.views import call_anyhow

    with pytest.raises(MuccValueError, match="negative"):
        call_anyhow(library.double, [torch.zeros(4), -1.0])
    assert len(library.given) == 1
    with pytest.raises(MuccValueError, match="negative"):
        call_anyhow(library.double, [torch.zeros(5)[1:], -1.0])
