"""What operations on whole tensors compute, one file per kind as in `mucc.dialects.mu.ops`."""

from mucc.dialects.mu.meanings import reduction, shape
from mucc.dialects.mu.meanings.base import Machine, Meaning

MEANINGS: dict[type, Meaning] = {**shape.MEANINGS, **reduction.MEANINGS}
"""What computes each operation from its operands' values."""

__all__ = ["MEANINGS", "Machine", "Meaning"]
