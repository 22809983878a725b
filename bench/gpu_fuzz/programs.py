"""Random programs: a form, a target, a schedule.

`generate(Choices(seed))` makes one; `generate(Choices(given=program.choices))` makes it again.
"""

from __future__ import annotations

from bench.gpu_fuzz.choices import Choices
from bench.gpu_fuzz.drafts import Draft, Program
from bench.gpu_fuzz.forms import FORMS

TARGETS = ("sm_90a", "sm_90a", "sm_90a", "sm_90a", "sm_80", "sm_89")
"""Those whose libraries an H100 or H200 runs, the one that matters most often."""

ALL_TARGETS = ("sm_90a", "sm_80", "sm_89", "sm_100a", "sm_120a")
"""Every target, for builds that nothing runs."""

MAINLOOPS = {
    "sm_90a": ("cooperative", "pingpong", "warpspecialized", "cpasync", "multistage", "skinny"),
    "sm_100a": ("one_sm", "two_sm", "multistage", "skinny"),
}
OLDER = ("multistage", "skinny")
CLUSTERS = ("1x1", "2x1", "1x2", "2x2", "4x1", "1x4")
SCHEDULERS = (
    "persistent",
    "persistent(raster=along_m)",
    "persistent(raster=along_n, swizzle=2)",
    "split_k(2)",
    "split_k(3)",
    "stream_k",
    "stream_k(splits=2)",
)
HINTS: tuple[dict[str, int], ...] = (
    {},
    {},
    {"M": 1},
    {"M": 7},
    {"M": 16, "N": 4096, "K": 4096},
    {"N": 3},
    {"M": 4096, "N": 4096, "K": 64},
)
"""Typical sizes that the compiler is told for open dims."""


def generate(choices: Choices, targets: tuple[str, ...] = TARGETS) -> Program:
    """The program that these choices stand for. Nobody has checked yet whether the compiler takes it."""
    target = choices.pick(targets)
    names = [n for n, f in FORMS.items() for _ in range(f.weight) if target == "sm_90a" or not f.hopper_only]
    form = choices.pick(names)
    draft = Draft(choices, target)
    FORMS[form].draft(draft)
    own = FORMS[form].mainloops
    text = ""
    if choices.chance(1, 2):
        text = _settings(draft, [("mainloop", choices.pick(own))]) if own else schedule(draft)
    if not FORMS[form].has_schedule:
        text = ""
    return draft.program(form, text, choices.pick(HINTS))


def schedule(draft: Draft) -> str:
    """A schedule that sets some of what can be set; it need not be legal."""
    c = draft.c
    mainloop = c.pick(MAINLOOPS.get(draft.target, OLDER))
    settings: list[tuple[str, str]] = []
    if c.chance(3, 4):
        settings.append(("mainloop", mainloop))
        if c.chance(1, 2):
            settings.append(("tile", _tile(c, mainloop, draft)))
    if mainloop not in OLDER:
        if c.chance(1, 3):
            settings.append(("cluster", c.pick(CLUSTERS)))
        if c.chance(1, 8):
            settings.append(("pdl", "on"))
        if c.chance(1, 8):
            settings.append(("epilogue", c.pick(("64x32", "64x64", "128x32"))))
    if c.chance(1, 3):
        settings.append(("scheduler", c.pick(SCHEDULERS)))
    if c.chance(1, 4):
        settings.append(("exchange", "on"))
    if c.chance(1, 8):
        settings.append(("stages", c.pick(("2", "3", "4"))))
    return _settings(draft, settings)


def _settings(draft: Draft, settings: list[tuple[str, str]]) -> str:
    if not settings:
        return ""
    lines = "".join(f"    {name} = {value}\n" for name, value in settings)
    return f"schedule f for {draft.target} {{\n{lines}}}\n"


def _tile(c: Choices, mainloop: str, draft: Draft) -> str:
    if mainloop == "skinny":
        return c.pick(("8x32x64", "16x32x64", "32x8x64"))
    if mainloop == "multistage":
        return c.pick(("128x128x32", "64x64x32", "128x64x32", "64x128x64"))
    widths = {p.dtype for p in draft.params}
    inner = 128 if widths & {"e4m3", "e5m2", "s8", "u8"} else 64 if widths & {"bf16", "f16"} else 32
    return f"{c.pick((128, 64, 192, 256))}x{c.pick((128, 16, 32, 64, 96, 192, 256))}x{inner}"
