"""Interpreters of operations on whole tensors, one file per kind as in `mucc.dialects.mu.ops`."""

from mucc.dialects.mu.meanings import composite, random, reduction, shape, windows
from mucc.dialects.mu.meanings.base import Machine, Meaning

MEANINGS: dict[type, Meaning] = {
    **shape.MEANINGS,
    **windows.MEANINGS,
    **reduction.MEANINGS,
    **composite.MEANINGS,
    **random.MEANINGS,
}
"""The function that computes each operation from its operands' values."""

__all__ = ["MEANINGS", "Machine", "Meaning"]
