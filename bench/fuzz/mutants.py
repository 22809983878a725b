"""Mutations of sources: of bytes, of tokens, of lines."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from mucc.dialects.mu.types import DTYPES
from mucc.frontend import foreign
from mucc.frontend.functions import FUNCTIONS
from mucc.frontend.lexer import KEYWORDS

_TOKEN = re.compile(r"\s+|//[^\n]*|[A-Za-z_]\w*|\d[\w.]*|->|[<>=!]=|.", re.DOTALL)
_NUMBERS = ("0", "1", "2", "3", "7", "16", "100", "127", "4096", "65536", "2147483647", "9223372036854775807")
_SHAPES = ("64x64x64", "128x128x64", "256x128x32", "1x1", "2x1", "8x64x64", "128x96x64", "0x0", "64x32")
_WORDS = (
    *(
        "tile",
        "cluster",
        "mainloop",
        "stages",
        "scheduler",
        "exchange",
        "epilogue",
        "pdl",
        "on",
        "off",
        "auto",
    ),
    *("cooperative", "pingpong", "warpspecialized", "cpasync", "multistage", "skinny", "one_sm", "two_sm"),
    *("persistent", "stream_k", "split_k", "raster", "swizzle", "splits", "along_m", "along_n", "row_major"),
    *("col_major", "strides", "sparse", "axis", "T", "None", "inf", "M", "N", "K", "x", "w", "y", "each"),
)
_ODD = ("\\", "\u00d7", "\u1d40", "\0", "\r", "\ufeff")
_SIGNS = (*"()[]{}<>=+-*/@%.,:;_", "->", "==", "!=", "<=", ">=", *_ODD)
_INDICES = (
    "...",
    "::",
    "[0]",
    "[-1]",
    "[..., 0]",
    "[::-1]",
    "[:, 1:]",
    "[..., : K / 2]",
    "[None, ...]",
    "[x]",
)
VOCABULARY = (
    *(*KEYWORDS, *DTYPES, *FUNCTIONS, *foreign.written(), *_WORDS),
    *(*_NUMBERS, *_SHAPES, *_SIGNS, *_INDICES),
)
MOST = 20_000
"""Characters that a mutant has at most, so that a run is about many programs and not about long ones."""

Mutation = Callable[[random.Random, list[str], str], None]
"""Change pieces of a text in place; the last argument is another program."""


def _drop(rng: random.Random, pieces: list[str], other: str) -> None:
    start = rng.randrange(len(pieces))
    del pieces[start : start + rng.choice((1, 1, 2, 5))]


def _double(rng: random.Random, pieces: list[str], other: str) -> None:
    place = rng.randrange(len(pieces))
    pieces[place:place] = pieces[place : place + rng.choice((1, 1, 3, 10))]


def _swap(rng: random.Random, pieces: list[str], other: str) -> None:
    a, b = rng.randrange(len(pieces)), rng.randrange(len(pieces))
    pieces[a], pieces[b] = pieces[b], pieces[a]


def _move(rng: random.Random, pieces: list[str], other: str) -> None:
    piece = pieces.pop(rng.randrange(len(pieces)))
    pieces.insert(rng.randrange(len(pieces) + 1), piece)


def _replace(rng: random.Random, pieces: list[str], other: str) -> None:
    places = [i for i, p in enumerate(pieces) if p.strip()] or [0]
    pieces[rng.choice(places)] = rng.choice(VOCABULARY)


def _insert(rng: random.Random, pieces: list[str], other: str) -> None:
    pieces.insert(rng.randrange(len(pieces) + 1), f" {rng.choice(VOCABULARY)} ")


def _rename(rng: random.Random, pieces: list[str], other: str) -> None:
    """One name for another that the program has: most such mutants are right in form."""
    places = [i for i, p in enumerate(pieces) if p[:1].isalpha()]
    if len(places) > 1:
        a, b = rng.sample(places, 2)
        pieces[a] = pieces[b]


def _number(rng: random.Random, pieces: list[str], other: str) -> None:
    places = [i for i, p in enumerate(pieces) if p[:1].isdigit()]
    if places:
        chosen = _SHAPES if "x" in pieces[place := rng.choice(places)] else _NUMBERS
        pieces[place] = rng.choice(chosen)


def _repeat(rng: random.Random, pieces: list[str], other: str) -> None:
    place = rng.randrange(len(pieces))
    pieces[place] = pieces[place] * rng.choice((10, 100, 1000))


def _splice(rng: random.Random, pieces: list[str], other: str) -> None:
    """A part of another program."""
    theirs = _TOKEN.findall(other)
    start = rng.randrange(len(theirs))
    place = rng.randrange(len(pieces) + 1)
    pieces[place:place] = theirs[start : start + rng.randrange(1, 30)]


def _cut(rng: random.Random, pieces: list[str], other: str) -> None:
    del pieces[rng.randrange(len(pieces)) :]


_ANY: tuple[Mutation, ...] = (_drop, _double, _swap, _move, _cut, _repeat)
_TOKENS: tuple[Mutation, ...] = (
    *_ANY,
    _replace,
    _replace,
    _insert,
    _rename,
    _rename,
    _rename,
    _number,
    _number,
    _splice,
)


def mutant(rng: random.Random, text: str, other: str) -> bytes:
    """A text with one to four mutations."""
    data = text[:MOST].encode()
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
        way = rng.random()
        if not data:
            return data
        if way < 0.15:
            data = _bytes(rng, bytearray(data))
            continue
        now = data.decode("utf-8", errors="replace")
        pieces = now.splitlines(keepends=True) if way < 0.25 else _TOKEN.findall(now)
        if pieces:
            rng.choice(_ANY if way < 0.25 else _TOKENS)(rng, pieces, other)
        data = "".join(pieces).encode("utf-8", errors="replace")[: 2 * MOST]
    return data


def _bytes(rng: random.Random, data: bytearray) -> bytes:
    place = rng.randrange(len(data))
    match rng.randrange(4):
        case 0:
            data[place] ^= 1 << rng.randrange(8)
        case 1:
            data[place] = rng.randrange(256)
        case 2:
            del data[place : place + rng.choice((1, 4, 64))]
        case _:
            data[place:place] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 2, 8))))
    return bytes(data)
