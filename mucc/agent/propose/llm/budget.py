"""Keep prompts within a number of tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CHARACTERS = 3.5
"""Characters of a token, on average over English and programs; models' own counts differ by a fifth."""


def tokens(text: str) -> int:
    """Estimate the tokens of a text."""
    return math.ceil(len(text) / CHARACTERS)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a prompt. The part of least worth is left out first; `NEEDED` never."""

    text: str
    worth: float


NEEDED = math.inf


class TooLong(ValueError):
    """What is needed alone exceeds the budget: `wanted` tokens."""

    def __init__(self, wanted: int):
        super().__init__(f"{wanted} tokens are needed")
        self.wanted = wanted


def fitted(pieces: Sequence[Piece], room: int) -> list[str]:
    """Return the texts that fit into `room` tokens, in order. Of equal worth the earlier goes first.

    Raises TooLong.
    """
    sizes = [tokens(piece.text) + 1 for piece in pieces]
    total = sum(sizes)
    kept = set(range(len(pieces)))
    for place in sorted(kept, key=lambda i: (pieces[i].worth, i)):
        if total <= room:
            break
        if pieces[place].worth == NEEDED:
            raise TooLong(total - room)
        kept.discard(place)
        total -= sizes[place]
    if total > room:
        raise TooLong(total - room)
    return [piece.text for place, piece in enumerate(pieces) if place in kept]
