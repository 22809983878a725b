"""Memory that inputs lie in, with guard bands around each. Imports torch."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

torch: Any = importlib.import_module("torch")

ALIGNMENT = 512
SMALLEST_BAND, LARGEST_BAND = 1 << 12, 1 << 20
"""Bytes before and after each input: an eighth of its own within these limits."""


@dataclass
class Guarded:
    """One input tensor within its buffer."""

    tensor: Any
    buffer: Any
    band: int
    byte: int = 0
    before: int = 0

    def fill(self, value: Any, byte: int) -> None:
        """Copy a value in, and write the bands."""
        self.byte = byte
        self.buffer.fill_(byte)
        self.tensor.copy_(value)
        self.before = self._sum()

    def copy(self, other: Guarded) -> None:
        """Become the same as another one of this layout, bands included."""
        self.byte = other.byte
        self.buffer.copy_(other.buffer)
        self.before = self._sum()

    def bands_changed(self) -> bool:
        """Whether somebody wrote beside the input."""
        head, tail = self.buffer[: self.band], self.buffer[-self.band :]
        return bool((head != self.byte).any()) or bool((tail != self.byte).any())

    def changed(self) -> bool:
        """Whether the input is no longer what was copied in."""
        return self._sum() != self.before

    def differs(self, other: Guarded) -> bool:
        """Whether the input has other bytes than another one of this layout."""
        mine, theirs = (g.buffer[g.band : -g.band].view(torch.int64) for g in (self, other))
        return not torch.equal(mine, theirs)

    def overlaps(self, start: int, size: int) -> bool:
        """Whether memory is part of this buffer."""
        own = self.buffer.data_ptr()
        return start < own + self.buffer.numel() and own < start + max(size, 1)

    def _sum(self) -> int:
        """Of its words, without another tensor of its size."""
        return int(torch.sum(self.buffer[self.band : -self.band].view(torch.int64)))


class Slot:
    """The inputs of one call, each in a buffer of its own that is used again."""

    def __init__(self) -> None:
        self.values: Any = ()
        self.guarded: list[Guarded] = []

    def allocate(self, sizes: Sequence[int], device: Any) -> list[Any]:
        """Return bytes for each input."""
        return [torch.empty(size, dtype=torch.uint8, device=device) for size in sizes]

    def fill(self, values: Any, byte: int) -> None:
        """Take over values; tensors of the same shapes as before lie where those lay."""
        tensors = self.lay_out(values)
        for own, value in zip(self.guarded, tensors, strict=True):
            own.fill(value, byte)

    def lay_out(self, values: Any) -> list[Any]:
        """Have places for values, and return their tensors."""
        leaves, spec = torch.utils._pytree.tree_flatten(values)
        tensors = [v for v in leaves if isinstance(v, torch.Tensor)]
        if [_layout(t) for t in tensors] != [_layout(g.tensor) for g in self.guarded]:
            self.guarded = []
            raw = self.allocate([bytes_of(t) for t in tensors], tensors[0].device) if tensors else []
            self.guarded = [guarded(t, own) for t, own in zip(tensors, raw, strict=True)]
        own = iter(self.guarded)
        placed = [next(own).tensor if isinstance(v, torch.Tensor) else v for v in leaves]
        self.values = torch.utils._pytree.tree_unflatten(placed, spec)
        return tensors


def _layout(t: Any) -> tuple[Any, ...]:
    return t.dtype, tuple(t.shape), _strides(t)


def _strides(t: Any) -> tuple[int, ...]:
    """Return the strides that a copy gets: the same, where the tensor fills its memory without gaps."""
    ordered = sorted((stride, n) for stride, n in zip(t.stride(), t.shape, strict=True) if n > 1)
    expected = 1
    for stride, n in ordered:
        if stride != expected:
            return tuple(torch.empty(t.shape, device="meta").stride())
        expected *= n
    return tuple(t.stride())


def _sizes(t: Any) -> tuple[int, int]:
    """Return the bytes of a tensor and of a band beside it."""
    size = -(-max(t.numel() * t.element_size(), 1) // ALIGNMENT) * ALIGNMENT
    return size, min(max(size // 8 // ALIGNMENT * ALIGNMENT, SMALLEST_BAND), LARGEST_BAND)


def bytes_of(t: Any) -> int:
    """Return the bytes that a tensor takes with bands around it, wherever they begin."""
    size, band = _sizes(t)
    return size + 2 * band + ALIGNMENT


def guarded(t: Any, raw: Any) -> Guarded:
    """Room for a tensor like this one in so many bytes, with bands around it."""
    size, band = _sizes(t)
    shift = -raw.data_ptr() % ALIGNMENT
    buffer = raw[shift : shift + size + 2 * band]
    inner = buffer[band : band + size].view(t.dtype)
    return Guarded(torch.as_strided(inner, t.shape, _strides(t), inner.storage_offset()), buffer, band)
