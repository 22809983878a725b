"""The time of each device kernel of a program, beside its bound: `mucc run --profile`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from mucc.analysis.bound import Rates
from mucc.compiler.launches import launches_of
from mucc.diagnostics.core import DiagnosticError
from mucc.target import get_target
from mucc.target.devices import Card, get_card

if TYPE_CHECKING:
    from mucc.compiler.compilation import Compilation

BAR = 24
"""The length of the longest bar, in characters."""


class StageTime(NamedTuple):
    """A device kernel in a call: time and bound in microseconds, bytes that it reads and writes."""

    name: str
    kind: str
    time_us: float
    bytes: float
    bound_us: float
    binding: str
    """The unit of the card that the bound is of: `dram`, `tensor.bf16` and so on."""

    @property
    def share(self) -> float:
        """The bound as a share of the time: 1 at the speed of light."""
        return self.bound_us / self.time_us if self.time_us else 0.0

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "share_of_bound": self.share}


def card_named(name: str, target: str) -> Card:
    """Find the card by the driver's name; one that is not known counts as the first of the target."""
    try:
        return get_card(name)
    except DiagnosticError:
        return get_card(get_target(target).facts.devices[0].key)


def stage_times(
    compilation: Compilation,
    kernel: str,
    dims: Mapping[str, int],
    times: Mapping[str, Sequence[float]],
    card: Card,
) -> list[StageTime]:
    """Return the kernels of a program in order of launches; `times` are in microseconds by stage."""
    rates = Rates(card.device, card.target.facts.multiprocessor)
    program = next(p for p in compilation.programs if p.sym_name.data == kernel)
    found: list[StageTime] = []
    for launch in launches_of(compilation.stages, program, dims, rates):
        assert launch.bound is not None
        moved = (launch.bytes_read + launch.bytes_written).at(dims)
        time = median(times[launch.name]) if times.get(launch.name) else 0.0
        bound = launch.bound
        found.append(StageTime(launch.name, launch.kind, time, moved, bound.seconds * 1e6, bound.binding))
    return found


def as_lines(stages: Sequence[StageTime]) -> list[str]:
    """Format a table, with a bar for the time of each kernel: full up to its bound, light for the rest."""
    names = max([len(s.name) for s in stages] + [5])
    longest = max([s.time_us for s in stages] + [1e-9])
    lines = [f"{'stage':<{names}}  {'kind':<9}  {'time':>10}  {'GB/s':>6}  {'bound':>10}  {'share':>6}"]
    for s in stages:
        rate = s.bytes / s.time_us / 1e3 if s.time_us else 0.0
        length = max(round(BAR * s.time_us / longest), 1)
        reached = min(round(length * s.share), length)
        bar = "█" * reached + "░" * (length - reached)
        lines.append(
            f"{s.name:<{names}}  {s.kind:<9}  {s.time_us:>7.1f} µs  {rate:>6.0f}  {s.bound_us:>7.1f} µs"
            f"  {s.share:>6.0%}  {bar}"
        )
    total, bound = sum(s.time_us for s in stages), sum(s.bound_us for s in stages)
    share = f"{bound / total:>6.0%}" if total else ""
    lines.append(f"{'all':<{names}}  {'':<9}  {total:>7.1f} µs  {'':>6}  {bound:>7.1f} µs  {share}".rstrip())
    return lines
