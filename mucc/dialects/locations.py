"""Source locations of operations: a place, and the calls that led to it where it was inlined."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc
from xdsl.ir import Attribute


def place_of(location: Attribute | None) -> FileLineColLoc | None:
    """Return the line and column of an operation, in the function that it is of; None if unknown."""
    return next(places_of(location), None)


def places_of(location: Attribute | None) -> Iterator[FileLineColLoc]:
    """Yield the place of an operation, then those of the calls that lead there, the innermost first."""
    while isinstance(location, CallSiteLoc):
        yield from places_of(location.callee)
        location = location.caller
    if isinstance(location, FileLineColLoc):
        yield location
