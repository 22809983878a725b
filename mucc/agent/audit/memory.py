"""Memory of the GPU between calls. Imports torch."""

from __future__ import annotations

import importlib
from typing import Any

torch: Any = importlib.import_module("torch")

UNUSED = 1 / 8
"""The part of the GPU's memory that PyTorch may keep for later."""


def tidy(device: Any) -> None:
    """Give back what PyTorch keeps of it without use, where that is much: pieces of large tensors rarely fit
    others of gigabytes."""
    if device.type != "cuda":
        return
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    if unused > UNUSED * torch.cuda.get_device_properties(device).total_memory:
        torch.cuda.empty_cache()
