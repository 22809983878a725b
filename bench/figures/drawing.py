"""Draw speedups as SVG: a strip of dots for many shapes, or a line for each name.

Numbers are the time of a rival over that of mucc, on a logarithmic axis; what is less than 1 is slower than
the rival, and drawn as a ring. Colours follow the light or dark scheme of the page; the width fits a phone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from mucc.agent.report.figures import geomean

WIDTH, MARGIN = 480, 14
LEGEND = "1 = as fast as the rival; further right is faster"
TICKS = (0.25, 0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32)

STYLE = """
text{font:13px system-ui,sans-serif;fill:#1f2328}
.n,.a{font-size:12px;fill:#59636e}.h{font-weight:600;font-size:15px}
.p{fill:#fff}.g{stroke:#d1d9e0}.o{stroke:#59636e}.m{stroke:#1f2328;stroke-width:3}
.f{stroke:#00796b;stroke-width:7;stroke-linecap:round;stroke-opacity:.7}
.s{fill:none;stroke:#bc4c00;stroke-width:1.6}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n,.a{fill:#9da7b3}.p{fill:#1e2129}.g{stroke:#3a414b}.o{stroke:#9da7b3}
.m{stroke:#e6edf3}.f{stroke:#4db6ac}.s{stroke:#ffa657}}
"""

Named = Mapping[str, float]


@dataclass(frozen=True)
class Strip:
    """Speedups of many shapes, by name."""

    label: str
    values: Named

    @property
    def mean(self) -> float:
        """The geometric mean."""
        return geomean(list(self.values.values()))

    @property
    def least(self) -> tuple[str, float]:
        """The slowest shape against the rival, and its speedup."""
        return min(self.values.items(), key=lambda item: item[1])


@dataclass(frozen=True)
class Figure:
    """A drawing of strips, or, `by_name`, with a line for each name of each strip."""

    name: str
    title: str
    strips: Sequence[Strip]
    note: str = ""
    by_name: bool = False

    @property
    def alt(self) -> str:
        """What the drawing shows, in a sentence; the table beside it has the numbers."""
        values = [value for strip in self.strips for value in strip.values.values()]
        return f"{self.title}: times as fast as rivals, from {min(values):.2f} to {max(values):.2f}"


class Axis:
    """A logarithmic axis over all values of a figure, from `left` to `right`."""

    def __init__(self, values: Sequence[float], left: float, right: float):
        self.low = max((t for t in TICKS if t <= min(0.85, *values)), default=TICKS[0])
        self.high = min((t for t in TICKS if t >= max(1.4, *values)), default=TICKS[-1])
        self.left, self.right = left, right

    def at(self, value: float) -> float:
        """Return the x of a value; values outside of the axis lie at its ends."""
        bounded = min(max(value, self.low), self.high)
        share = math.log(bounded / self.low) / math.log(self.high / self.low)
        return round(self.left + share * (self.right - self.left), 1)

    def draw(self, top: int, bottom: int) -> Iterator[str]:
        """Draw lines and numbers of ticks, those left out that would touch the one before."""
        before = -math.inf
        for tick in (t for t in TICKS if self.low <= t <= self.high):
            x = self.at(tick)
            if x - before < 30 and tick != 1:
                continue
            before = x
            style = "o" if tick == 1 else "g"
            yield f'<path class="{style}" d="M{x} {top}V{bottom}"/>'
            yield f'<text class="a" x="{x}" y="{bottom + 15}" text-anchor="middle">{tick:g}</text>'


def svg(figure: Figure) -> str:
    """Draw a figure."""
    values = [v for s in figure.strips for v in s.values.values()]
    top = 46
    if figure.by_name:
        axis = Axis(values, 190, WIDTH - 60)
        bottom = top + sum(22 * len(s.values) + 26 for s in figure.strips)
        body = list(_lines(figure.strips, axis, top))
    else:
        axis = Axis(values, MARGIN + 6, WIDTH - MARGIN - 6)
        bottom = top + 54 * len(figure.strips)
        body = list(_strips(figure.strips, axis, top))
    height = bottom + 42
    return "\n".join(
        [
            "<!-- made by python -m bench.figures from bench/results -->",
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" role="img">',
            f"<title>{escape(figure.title)}</title><desc>{escape(figure.alt)}</desc><style>{STYLE}</style>",
            '<rect class="p" width="100%" height="100%" rx="6"/>',
            f'<text class="h" x="{MARGIN}" y="26">{escape(figure.title)}</text>',
            *axis.draw(top, bottom),
            *body,
            f'<text class="a" x="{MARGIN}" y="{bottom + 33}">{LEGEND}</text>',
            "</svg>\n",
        ]
    )


def _strips(strips: Sequence[Strip], axis: Axis, top: int) -> Iterator[str]:
    """Draw each strip as its label, its figures, and a dot for each shape."""
    for i, strip in enumerate(strips):
        y = top + 54 * i
        yield f'<text x="{MARGIN}" y="{y + 16}">{escape(strip.label)}</text>'
        figures = f"{strip.mean:.2f} ({strip.least[1]:.2f})"
        yield f'<text x="{WIDTH - MARGIN}" y="{y + 16}" text-anchor="end">{figures}</text>'
        yield from _dots(strip.values.values(), axis, y + 32)
        x = axis.at(strip.mean)
        yield f'<path class="m" d="M{x} {y + 24}v16"/>'


def _dots(values: Iterable[float], axis: Axis, y: int) -> Iterator[str]:
    """Draw a dot for each value of at least 1, and a ring for each below."""
    fast = [axis.at(value) for value in sorted(values) if value >= 1]
    slow = [axis.at(value) for value in sorted(values) if value < 1]
    if fast:
        yield '<path class="f" d="' + "".join(f"M{x} {y}h0" for x in fast) + '"/>'
    if slow:
        yield (
            '<path class="s" d="'
            + "".join(f"M{x - 3:.1f} {y}a3 3 0 1 0 6 0a3 3 0 1 0-6 0" for x in slow)
            + '"/>'
        )


def _lines(strips: Sequence[Strip], axis: Axis, top: int) -> Iterator[str]:
    """Draw a line for each name, under the label of its strip."""
    y = top
    for strip in strips:
        yield f'<text class="n" x="{MARGIN}" y="{y + 17}">{escape(strip.label)}</text>'
        y += 26
        for name, value in strip.values.items():
            yield f'<text x="{MARGIN}" y="{y + 9}">{escape(name)}</text>'
            yield from _dots([value], axis, y + 5)
            yield f'<text x="{WIDTH - MARGIN}" y="{y + 9}" text-anchor="end">{value:.2f}</text>'
            y += 22
