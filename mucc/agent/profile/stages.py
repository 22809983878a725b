"""Turn readings of sources into evidence by stages: assign kernels to stages, and compute shares of the
time."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from mucc.agent.profile.code import Code
from mucc.agent.profile.evidence import TIME, Choice, Extents, Kernel, Stage
from mucc.agent.profile.sources import Launch, Reading
from mucc.api.json_types import BoundJson, EstimateJson, ExplanationJson, StageBoundJson, StageJson
from mucc.api.library import Manifest


def stages(manifest: Manifest, reading: Reading, launch_us: float) -> list[Stage]:
    """Return the stages of all kernels of a program, in the order in which they run."""
    entries = [
        (f"{kernel['name']}.{stage['name']}", stage)
        for kernel in manifest.json["kernels"]
        for stage in kernel["stages"]
    ]
    names = [name for name, _ in entries]
    built = _built(reading)
    launches = assign(names, reading.launches)
    explained = {f"{e['kernel']}.{e['stage']}": e for e in reading.explained}
    bounds = {
        f"{report.get('kernel')}.{stage.get('name')}": stage
        for report in reading.sol
        for stage in report.get("stages", [])
    }
    found: list[Stage] = []
    for name, entry in entries:
        choice = _choice(entry, explained.get(name))
        own, bound = launches.get(name, []), bounds.get(name, StageBoundJson())
        ran = list(dict.fromkeys(launch.kernel for launch in own))
        found.append(
            Stage(
                name,
                entry["kind"],
                choice,
                [k for k in built.values() if k.name in ran or owner(k.name, names) == name],
                merged(own),
                ran,
                _weight(own, choice, bound, launch_us),
                bound.get("bytes"),
            )
        )
    whole = sum(stage.share for stage in found)
    return [replace(s, share=s.share / whole if whole else 1 / len(found)) for s in found]


def _weight(own: Sequence[Launch], choice: Choice | None, bound: BoundJson, launch_us: float) -> float:
    """Microseconds of a stage: as measured, else by the cost model, else at its bound."""
    if own:
        return sum(launch.counters.get(TIME, 0.0) for launch in own) / 1e3
    if choice is not None and "seconds" in choice.estimate:
        return float(choice.estimate["seconds"]) * 1e6
    return float(bound.get("bound_us", 0.0)) + launch_us


def symbol(name: str) -> str:
    """Return the prefix of the names of a stage's device kernels: `mu_mlp_h` for `mlp.h`."""
    return "mu_" + re.sub(r"[\W_]+", "_", name, flags=re.ASCII).strip("_")


def owner(kernel: str, names: Sequence[str]) -> str | None:
    """Return the stage that a device kernel was made for; None for a kernel that is none of the program's."""
    plain = re.sub(r"_+", "_", kernel)
    fitting = [n for n in names if plain == symbol(n) or plain.startswith(f"{symbol(n)}_")]
    return max(fitting, key=len, default=None)


def assign(names: Sequence[str], launches: Sequence[Launch]) -> dict[str, list[Launch]]:
    """Return the launches of each stage.

    Stages with equal machine code share the kernels of the first of them. Launches come in the order of the
    stages, so what comes again belongs to the next stage that has no kernels of its own.
    """
    owners = [owner(launch.kernel, names) for launch in launches]
    found: dict[str, list[Launch]] = defaultdict(list)
    at = -1
    for launch, name in zip(launches, owners, strict=True):
        if name is None:
            continue
        place = names.index(name)
        again = any(other.kernel == launch.kernel for other in found[name])
        if place < at or again:
            free = (i for i in range(max(at, place) + 1, len(names)) if names[i] not in owners)
            place = next(free, place)
        at = max(at, place)
        found[names[place]].append(launch)
    return dict(found)


def merged(launches: Sequence[Launch]) -> dict[str, float]:
    """Return the counters of several launches as those of one: sums, or means weighted by time."""
    if len(launches) == 1:
        return dict(launches[0].counters)
    found: dict[str, float] = {}
    for name in dict.fromkeys(n for launch in launches for n in launch.counters):
        having = [(x.counters[name], x.counters.get(TIME, 1.0)) for x in launches if name in x.counters]
        whole = sum(weight for _, weight in having)
        if name.endswith(".sum"):
            found[name] = sum(value for value, _ in having)
        else:
            found[name] = sum(value * weight for value, weight in having) / whole if whole else having[0][0]
    return found


def _built(reading: Reading) -> dict[str, Kernel]:
    """Return the kernels in the library by their names."""
    codes = {f.name: Code.of(f.instructions) for f in reading.functions}
    given = {r.kernel: r for r in reading.resources}
    return {name: Kernel(name, given.get(name), codes.get(name)) for name in (given | codes)}


def _choice(entry: StageJson, explained: ExplanationJson | None) -> Choice | None:
    """Return a kernel's schedule from the manifest, with its estimate; None without tiles."""
    from mucc.api.schedules import CLUSTER, EXCHANGE, MAINLOOP, PDL, SCHEDULER, SETTINGS, STAGES, TILE

    settings = {name: setting.from_json(entry.get(name)) for name, setting in SETTINGS.items()}
    tile, cluster = TILE.of(settings), CLUSTER.of(settings)
    mainloop, scheduler, stages = MAINLOOP.of(settings), SCHEDULER.of(settings), STAGES.of(settings)
    if tile is None or cluster is None or mainloop is None or scheduler is None or stages is None:
        return None
    is_exchanged = EXCHANGE.is_on(settings)
    extents = None
    if explained is not None:
        m, n, k, batch = (explained["extents"].get(name) for name in ("M", "N", "K", "batch"))
        if m and n and k:
            extents = Extents(m, n, k, batch or 1)
            extents = extents._replace(m=extents.n, n=extents.m) if is_exchanged else extents
    return Choice(
        str(entry["compute"]),
        tile.sizes,
        cluster.sizes,
        mainloop.data.value,
        stages.value.data,
        scheduler.kind.data,
        scheduler.splits.data,
        scheduler.raster.data,
        scheduler.swizzle.data,
        is_exchanged,
        PDL.is_on(settings),
        extents,
        explained["estimate"] if explained else EstimateJson(),
    )
