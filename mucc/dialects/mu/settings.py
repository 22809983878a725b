"""The table of schedule settings, each declared once: name, meaning, values, default.

Frontend, verifier, manifest, tuning database, explanations and agent read names and values from `SETTINGS`.
A kind of kernel says which settings it has, and a target which of their values it allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from xdsl.ir import Attribute

from mucc.dialects.mu.schedule_attributes import (
    ClusterAttr,
    EpilogueTileAttr,
    Mainloop,
    MainloopAttr,
    SchedulerAttr,
    TileAttr,
)
from mucc.dialects.mu.setting_kinds import (
    CountSetting,
    SchedulerSetting,
    Setting,
    SizesSetting,
    SwitchSetting,
    WordSetting,
)

Chosen: TypeAlias = Mapping[str, Attribute]
"""The value of each setting of a schedule that is chosen or pinned, by the setting's name."""

Texts: TypeAlias = Mapping[str, str]
"""The source text of each value, by the setting's name."""

TILE = SizesSetting(
    "tile",
    TileAttr,
    "MNK",
    "128x256x64",
    "`MxNxK`: the block of the result that one thread block computes, and its step along K",
    terse=True,
)
CLUSTER = SizesSetting(
    "cluster",
    ClusterAttr,
    "MN",
    "2x1",
    "`MxN`: how many thread blocks share their loads",
    terse=True,
)
MAINLOOP = WordSetting(
    "mainloop",
    MainloopAttr,
    Mainloop,
    "sm_90a: `cooperative`, `pingpong`, `warpspecialized`, `cpasync` (threads copy rows of A: those "
    "that `gather` picks, or rows of 4 and 8 bytes); sm_100a: `one_sm`, `two_sm` (a pair of blocks "
    "multiplies together); `multistage` everywhere: without TMA, for rows of any alignment without "
    "copies, and for `compute=f32`; `skinny` where M or N is 1 to 16, up to 32",
    terse=True,
)
STAGES = CountSetting(
    "stages",
    "stage",
    "a number, or `auto`: as many as fit into shared memory",
)
SCHEDULER = SchedulerSetting(
    "scheduler",
    SchedulerAttr,
    "`persistent(raster=along_m, swizzle=1)` with raster `along_m`, `along_n` or `heuristic` and "
    "swizzle 1, 2, 4 or 8; `stream_k(splits=n)`; `split_k(n)`",
    terse=True,
    parts=("split_k", "stream_k", "swizzle", "raster"),
)
EXCHANGE = SwitchSetting(
    "exchange",
    "`on` or `off`: compute the transposed product `Dᵀ = Bᵀ Aᵀ`, so that a small M becomes the tile's "
    "N. `tile`, `cluster` and `raster` then count the kernel's: M is the result's columns, N its rows",
)
EPILOGUE = SizesSetting(
    "epilogue",
    EpilogueTileAttr,
    "MN",
    "64x32",
    "`MxN`, or `auto`: the piece of a tile that the epilogue works on at a time",
    unset="auto",
)
PDL = SwitchSetting(
    "pdl",
    "`on` or `off`: start while the kernel before it on the stream still runs (programmatic dependent "
    "launch), and wait for its end before reading. Off where it is left out",
)
REPRODUCIBLE = SwitchSetting(
    "reproducible",
    "`on` or `off`: give the same bits in every run on a card, for a row of a result also whatever number "
    "of rows there are. For all kernels of a kernel or for a stage, contraction or not",
)

SETTINGS: Mapping[str, Setting[Any]] = {
    s.name: s for s in (TILE, CLUSTER, MAINLOOP, STAGES, SCHEDULER, EXCHANGE, EPILOGUE, PDL, REPRODUCIBLE)
}
"""All settings by name, in the order of `schedule` blocks and manifests."""


def texts_of(settings: Chosen) -> dict[str, str]:
    """Convert a schedule to source text, setting by setting."""
    return {name: SETTINGS[name].text(value) for name, value in settings.items()}


def parse_settings(texts: Texts | Iterable[tuple[str, str]]) -> dict[str, Attribute]:
    """Parse the source texts of settings; settings left to the compiler (`auto`) are dropped.

    Raises ValueError for an unknown setting, and for a text that is no value of its setting.
    """
    parsed: dict[str, Attribute] = {}
    for name, text in dict(texts).items():
        if (setting := SETTINGS.get(name)) is None:
            raise ValueError(f"there is no setting '{name}'")
        if (value := setting.parse(text)) is not None:
            parsed[name] = value
    return parsed
