"""Random schedules for random programs: values that kernels have, and values that none has."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from bench.gpu_fuzz.programs import CLUSTERS, MAINLOOPS, OLDER, SCHEDULERS
from mucc.dialects.mu.schedule_attributes import Mainloop, Raster

_SCHEDULE = re.compile(r"^schedule\b[^}]*}\n?", re.MULTILINE)

_MS = (64, 128, 192, 256, 8, 16, 32)
_NS = (8, 16, 32, 64, 96, 128, 192, 256, 24, 40, 152, 200)
_KS = (16, 32, 64, 128)
_ODD = (0, 1, 7, 48, 100, 320, 512, 4096, 1 << 20)
"""Sizes that few kernels or none have."""

ILLEGAL = 0.06
"""The share of values that are no value of their setting on any target, or that no kernel has."""


def _size(rng: random.Random, sizes: tuple[int, ...]) -> int:
    return rng.choice(_ODD if rng.random() < ILLEGAL else sizes)


def _tile(rng: random.Random, mainloop: str) -> str:
    match mainloop:
        case "skinny":
            sizes = ((8, 16, 32), (8, 16, 32, 64), (32, 64, 128))
        case "multistage":
            sizes = ((64, 128, 256), (64, 128, 256), (16, 32, 64))
        case _:
            sizes = (_MS, _NS, _KS)
    return "x".join(str(_size(rng, s)) for s in sizes)


def _cluster(rng: random.Random, _: str) -> str:
    return rng.choice(("8x1", "4x4", "16x1", "3x1", "0x1") if rng.random() < ILLEGAL else CLUSTERS)


def _scheduler(rng: random.Random, _: str) -> str:
    raster, swizzle = rng.choice(list(Raster)), _size(rng, (1, 2, 4, 8))
    pieces = rng.choice((0, 1000) if rng.random() < ILLEGAL else (1, 2, 3, 4, 8, 16))
    made = f"persistent(raster={raster}, swizzle={swizzle})"
    return rng.choice((*SCHEDULERS, made, made, f"split_k({pieces})", f"stream_k(splits={pieces})"))


def _epilogue(rng: random.Random, _: str) -> str:
    if rng.random() < 0.2:
        return "auto"
    return f"{_size(rng, (64, 128, 32, 16))}x{_size(rng, (8, 16, 32, 64))}"


def _switch(rng: random.Random, _: str) -> str:
    return rng.choice(("on", "on", "off"))


def _stages(rng: random.Random, _: str) -> str:
    return rng.choice(("1", "0", "40") if rng.random() < ILLEGAL else ("2", "3", "4", "auto"))


_VALUES: dict[str, tuple[float, Callable[[random.Random, str], str]]] = {
    "tile": (0.35, _tile),
    "cluster": (0.15, _cluster),
    "stages": (0.15, _stages),
    "scheduler": (0.25, _scheduler),
    "exchange": (0.15, _switch),
    "epilogue": (0.1, _epilogue),
    "pdl": (0.15, _switch),
    "reproducible": (0.15, _switch),
}
"""How each setting but the mainloop is drawn, and how often it is set."""


def schedule(rng: random.Random, text: str, target: str) -> str:
    """Draw a schedule of the kernel `f` of a program, or of one of its stages."""
    own = MAINLOOPS.get(target, OLDER)
    mainloop = rng.choice(list(Mainloop) if rng.random() < ILLEGAL else own)
    settings = {"mainloop": mainloop} if rng.random() < 0.5 else {}
    settings |= {name: draw(rng, mainloop) for name, (share, draw) in _VALUES.items() if rng.random() < share}
    stages = re.findall(r"stage (\w+) =", text)
    of = f"f.{rng.choice(stages)}" if stages and rng.random() < 0.3 else "f"
    lines = "".join(f"    {name} = {value}\n" for name, value in settings.items())
    return f"schedule {of} for {target} {{\n{lines}}}\n"


def scheduled(seed: str, text: str, target: str) -> str:
    """Return a program with a drawn schedule for its kernel `f` instead of those that it has."""
    return _SCHEDULE.sub("", text).rstrip("\n") + "\n\n" + schedule(random.Random(seed), text, target)
