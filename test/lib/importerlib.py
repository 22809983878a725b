"""What tests of imports share: a function as a module, and a comparison with PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Applied(torch.nn.Module):
    """A function of tensors as a module without state."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def agrees(made: Any, *args: Any, **keywords: Any) -> None:
    """Assert that an import computes what PyTorch does."""
    wrong = [d for d in made.verify(*args, **keywords) if not d.is_good]
    assert not wrong, wrong
