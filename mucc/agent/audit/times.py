"""The times of one call by the judge's clock, for the judge's process and its parent."""

from __future__ import annotations

from typing import NamedTuple


class Times(NamedTuple):
    """The times of one call by the judge's clock, in ms from its start, and its start in ns.

    `returned` is when it returned, `handed` when its results were handed over, and `copied` the most that
    handing over as many bytes takes.
    """

    returned: float
    handed: float
    copied: float
    began: int

    @property
    def counted(self) -> float:
        """The time that counts: until the call returned, or until its results were handed over less `copied`.

        The later one counts, as a call may still compute while its results are handed over.
        """
        return max(self.handed - self.copied, self.returned)
