"""How many threads PyTorch uses for work of the audit itself. Imports torch."""

from __future__ import annotations

import importlib
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

torch: Any = importlib.import_module("torch")

SMALL = 1 << 20
"""Bytes below which one thread does the work: where other processes keep processors busy, threads that wait
for each other take 20 ms for what one thread does in a few microseconds."""


@contextmanager
def few(size: int) -> Generator[None]:
    """Use one thread meanwhile, for work on so few bytes."""
    before = torch.get_num_threads()
    if size >= SMALL or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def bytes_of(values: Iterable[Any]) -> int:
    """Return the bytes of the tensors among values."""
    return sum(v.numel() * v.element_size() for v in values if isinstance(v, torch.Tensor))
