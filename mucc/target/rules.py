"""Rules of targets: what is broken, what decides, and a value of the setting to blame that is legal.

A target says which rules a configuration breaks; what is common to all, finding a fix that is itself legal,
is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import log2
from typing import NamedTuple

from mucc.target.config import GemmConfig, Violation


class Fix(NamedTuple):
    """A configuration and stage count, and the value of a setting that leads to it."""

    text: str
    config: GemmConfig
    stages: int | None


Fixes = Callable[[GemmConfig, int | None], Iterator[Fix]]
"""Proposes values for a setting of a configuration, the most likely first."""


class Broken(NamedTuple):
    """A broken rule, and proposals for the setting to blame."""

    code: str
    setting: str
    message: str
    notes: tuple[str, ...]
    fixes: Fixes


Rules = Callable[[GemmConfig, int | None], Iterator[Broken]]
"""The rules that a configuration breaks."""

Mending = Callable[[GemmConfig, int | None, set[str]], tuple[GemmConfig, int | None]]
"""A configuration with harmless values for some settings."""


def violations(rules: Rules, mended: Mending, config: GemmConfig, stages: int | None) -> list[Violation]:
    """Every broken rule, each with a value that is legal with the other settings where there is one."""
    found = list(rules(config, stages))
    return [
        Violation(r.code, r.setting, r.message, r.notes, _fix(rules, mended, r, found, config, stages))
        for r in found
    ]


def _fix(
    rules: Rules,
    mended: Mending,
    rule: Broken,
    found: list[Broken],
    config: GemmConfig,
    stages: int | None,
) -> str | None:
    """The first proposal that breaks no rule but those that other settings are to blame for already.

    Where a pinned stage count allows none the count has to give way, and then every other setting.
    """
    others = [other for other in found if other.setting != rule.setting]
    settings = {other.setting for other in others}
    config, stages = mended(_plain(config, settings), stages, settings)
    tolerated = {other.code for other in others}
    second: str | None = None
    for pinned in dict.fromkeys((stages, None)):
        for fix in rule.fixes(config, pinned):
            left = list(rules(fix.config, fix.stages))
            if {b.code for b in left} <= tolerated:
                return fix.text
            if second is None and all(b.setting != rule.setting for b in left):
                second = fix.text
    return second


def _plain(config: GemmConfig, settings: set[str]) -> GemmConfig:
    """The configuration without some settings that may be left out."""
    if "pdl" in settings:
        config = replace(config, pdl=False)
    return replace(config, epilogue_tile=None) if "epilogue" in settings else config


# Rules that targets share


def launches(config: GemmConfig, mainloops: Iterable[str]) -> Iterator[Broken]:
    """Programmatic dependent launch is for kernels that wait before they read anything."""

    def off(config: GemmConfig, stages: int | None) -> Iterator[Fix]:
        yield Fix("off", replace(config, pdl=False), stages)

    if config.pdl and (config.mainloop not in mainloops or config.grouped):
        subject = "a grouped contraction" if config.grouped else f"the {config.mainloop} mainloop"
        message = f"{subject} cannot start before the kernel before it has ended"
        note = "only kernels that load by TMA wait for that kernel before they read"
        yield Broken("MU3073", "pdl", message, (note,), off)
    elif config.pdl and config.epilogue.scalars:
        message = "the epilogue reads a number from memory before it waits for the kernel before it"
        note = "CUTLASS fetches numbers as a kernel starts; a number passed by value is in no memory"
        yield Broken("MU3073", "pdl", message, (note,), off)


def pieces(config: GemmConfig) -> Iterator[Broken]:
    """Only epilogues of CUTLASS that store by TMA work on pieces of a tile that can be chosen."""

    def automatic(config: GemmConfig, stages: int | None) -> Iterator[Fix]:
        yield Fix("auto", replace(config, epilogue_tile=None), stages)

    if config.epilogue_tile is not None:
        subject = "a grouped contraction" if config.grouped else f"the {config.mainloop} mainloop"
        message = f"the epilogue tile of {subject} cannot be chosen"
        note = "only the epilogues of sm_90a that store by TMA work on pieces of any width"
        yield Broken("MU3074", "epilogue", message, (note,), automatic)


def without_tma(config: GemmConfig, stages: int | None) -> list[Violation]:
    """What of a schedule is for kernels that load and store by TMA, in one that does neither."""

    def broken(config: GemmConfig, stages: int | None) -> Iterator[Broken]:
        yield from launches(config, ())
        yield from pieces(config)

    return violations(broken, lambda config, stages, _: (config, stages), config, stages)


# Proposals that targets share


def nearest_tiles(
    config: GemmConfig, stages: int | None, rows: Iterable[int], columns: Iterable[int], depths: Iterable[int]
) -> Iterator[Fix]:
    """Tiles, the closest to the present one first; of equally close ones the smaller."""

    def distance(tile: tuple[int, int, int]) -> tuple[float, int]:
        steps = sum(abs(log2(x / max(x0, 1))) for x, x0 in zip(tile, config.tile, strict=True))
        return steps, tile[0] * tile[1] * tile[2]

    m, n, k = (max(extent, 1) for extent in config.tile)
    tiles = ((x, y, z) for x in {*rows, m} for y in {*columns, n} for z in {*depths, k})
    for tile in sorted(tiles, key=distance):
        yield Fix(f"{tile[0]}x{tile[1]}x{tile[2]}", replace(config, tile=tile), stages)


def nearest_clusters(
    config: GemmConfig, stages: int | None, clusters: Iterable[tuple[int, int]]
) -> Iterator[Fix]:
    """Clusters, the closest to the present one first."""
    m, n = config.cluster
    for cluster in sorted(clusters, key=lambda c: (abs(c[0] - m) + abs(c[1] - n), c[0] * c[1])):
        yield Fix(f"{cluster[0]}x{cluster[1]}", replace(config, cluster=cluster), stages)


def stage_counts(config: GemmConfig, stages: int | None, most: int) -> Iterator[Fix]:
    """The most that fit, then as many as fit."""
    yield Fix(str(most), config, most)
    yield Fix("auto", config, None)


def kilobytes(size: int) -> str:
    """A size in KB with one decimal where it is not whole."""
    return f"{size / 1024:.1f}".removesuffix(".0") + " KB"
