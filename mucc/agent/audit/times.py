"""The times of one call by the judge's clock, in the judge's process and in the one that leads it."""

from __future__ import annotations

from typing import NamedTuple


class Times(NamedTuple):
    """One call in ms by the judge's clock: until it returned, until its results were handed over, and what it
    takes at the most to hand over as much; and when it began, in ns of that clock."""

    returned: float
    handed: float
    copied: float
    began: int

    @property
    def counted(self) -> float:
        """Until it returned, or until its results were handed over, less what that takes at the most, where
        that is later: then a call still computes while results are fetched."""
        return max(self.handed - self.copied, self.returned)
