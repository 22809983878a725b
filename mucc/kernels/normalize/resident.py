"""Which long rows all multiprocessors hold together (mucc/rows_resident.cuh), and what else they hold.

The multiprocessors of an H100 have 30 MB of shared memory and 34 MB of registers, its L2 50 MB. A layer norm
of rows of 16.8 MB with weights of 33.5 MB reads the weights from DRAM again for each row if a row lies in
shared memory. With the row in registers the weights fit in shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mucc.codegen.pointwise import Operand
from mucc.dialects.mu.types import dtype_bytes
from mucc.target.facts import Facts

THREADS = 384
"""Threads of a block, of which a multiprocessor has one: `kResidentThreads` of mucc/rows.h."""
REGISTERS = 88
"""Numbers of a row that each of these threads keeps, about half of its registers."""
SHARE = 4
"""Rows have in common what L2 loses between two rows if that takes more than one part in so many of L2."""


@dataclass(frozen=True)
class Resident:
    """What a block keeps: a part of a row in registers, and what all rows have in common in shared memory."""

    rounds: int
    """Vectors of each value of a row in each thread."""
    together: int
    """How many of them a thread computes at a time, of which `rounds` is a multiple."""
    common: tuple[Operand, ...]

    @property
    def common_bytes(self) -> int:
        """The bytes of an element of the row of all operands in common."""
        return sum(map(_bytes, self.common))


def resident(
    facts: Facts, length: int, vector: int, loads: int, group: int, common: Sequence[Operand]
) -> Resident | None:
    """Return how a row of `length` elements is held; None where teams of blocks do as well.

    `loads` values of an element are kept between reductions; `group` is the most vectors that a thread
    computes at a time. `common` are the operands that only what is stored reads, the same for all rows.
    """
    card = facts.devices[0]
    rounds = REGISTERS // (vector * loads)
    together = max(n for n in range(1, group + 1) if rounds % n == 0)
    own = rounds * THREADS * vector * card.multiprocessors
    found = Resident(rounds, together, tuple(common))
    if rounds and SHARE * found.common_bytes * length > card.l2_bytes and length <= own:
        return found
    held = card.multiprocessors * facts.limits.shared_memory // (4 * loads)
    if rounds and held < length <= 2 * (held + own):
        return Resident(rounds, together, ())
    return None


def _bytes(operand: Operand) -> int:
    return dtype_bytes(operand.memory.type.element_type)
