"""A chart with two axes, drawn as SVG. Colours are classes of the page's style."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mucc.agent.report.markup import Markup, h, join

WIDTH, HEIGHT = 480.0, 290.0
LEFT, RIGHT, TOP, BOTTOM = 58.0, 12.0, 12.0, 40.0
"""In units of the drawing; letters are 12 high."""

XY = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """A range of values, `low` below `high`, above 0 where it is logarithmic; `whole` where there is nothing
    between whole numbers."""

    label: str
    low: float
    high: float
    log: bool = False
    whole: bool = False

    @classmethod
    def over(cls, label: str, values: Iterable[float], *, log: bool = False, whole: bool = False) -> Axis:
        """Return the range of some values with a little room; of any where there are none."""
        found = [v for v in values if math.isfinite(v) and (v > 0 or not log)] or [1.0]
        low, high = min(found), max(found)
        if log:
            low, high = low / 1.15, high * 1.15
            return cls(label, low, high if high > low else low * 2, True)
        low = min(low, 0.0)
        return cls(label, low, high * 1.02 if high > low else low + 1.0, whole=whole)

    @classmethod
    def between(cls, label: str, low: float, high: float) -> Axis:
        """Return a range that need not begin at 0, with a little room."""
        room = max((high - low) * 0.05, 0.01)
        return cls(label, low - room, high + room)

    def place(self, value: float) -> float:
        """Where a value is, 0 to 1 within the range; values outside of it are put to its ends."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, 1e-300))
        return min(max((value - low) / (high - low), 0.0), 1.0)

    def ticks(self) -> list[float]:
        """Round values within the range, about five."""
        if self.log and self.high > 6 * self.low:
            return self._log_ticks()
        step = max(_round((self.high - self.low) / 7), 1 if self.whole else 0)
        first = math.ceil(self.low / step)
        return [i * step for i in range(first, first + 12) if i * step <= self.high]

    def _log_ticks(self) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        every = max(1, (last - first) // 6)
        for digits in ((1,), (1, 2, 5), (1, 2, 3, 5, 7)):
            found = [d * 10.0**p for p in range(first, last + 1, every) for d in digits]
            found = [v for v in found if self.low <= v <= self.high]
            if len(found) >= 4:
                return found
        return [self.low, self.high]


def _round(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= step * 0.999)


def short(value: float) -> str:
    """Return a number with few digits: 0.012, 3.5, 120, 15k, 2.5M."""
    size = abs(value)
    for factor, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= factor:
            scale = 1e3 if letter == "k" else factor
            return f"{value / scale:.3g}{letter}"
    return f"{value:.4g}" if size < 1e-3 or size >= 100 else f"{value:.3g}"


@dataclass
class Chart:
    """Lines, dots and levels over two axes, in the order in which they are added."""

    title: str
    x: Axis
    y: Axis
    parts: list[Markup] = field(default_factory=list[Markup])
    legend: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Classes with what they mean."""

    def at(self, x: float, y: float) -> XY:
        """Where a point is in the drawing."""
        across = LEFT + self.x.place(x) * (WIDTH - LEFT - RIGHT)
        return across, HEIGHT - BOTTOM - self.y.place(y) * (HEIGHT - TOP - BOTTOM)

    def line(self, points: Sequence[XY], cls: str, says: str = "") -> None:
        """Draw a line through points."""
        if points:
            places = " ".join(f"{x:.1f},{y:.1f}" for x, y in (self.at(*point) for point in points))
            self.parts.append(_said("polyline", says, points=places, cls=f"l {cls}"))

    def steps(self, points: Sequence[XY], cls: str, says: str = "") -> None:
        """Draw a line of steps: a value holds until the next."""
        corners: list[XY] = []
        for x, y in points:
            if corners and corners[-1][1] != y:
                corners.append((x, corners[-1][1]))
            corners.append((x, y))
        # Of a level stretch only the ends are drawn.
        kept = [p for i, p in enumerate(corners) if i in (0, len(corners) - 1) or not _level(corners, i)]
        self.line(kept, cls, says)

    def dot(self, x: float, y: float, cls: str, says: str = "", radius: float = 3.0) -> None:
        """Draw a point."""
        across, down = self.at(x, y)
        self.parts.append(
            _said("circle", says, cx=round(across, 1), cy=round(down, 1), r=radius, cls=f"d {cls}")
        )

    def level(self, y: float, cls: str, says: str) -> None:
        """Draw a horizontal line at a value of the y axis, over the whole width."""
        if self.y.low <= y <= self.y.high:
            self.line([(self.x.low, y), (self.x.high, y)], f"dash {cls}", says)

    def svg(self) -> Markup:
        """Return the drawing with its axes, and a legend below."""
        drawing = h(
            "svg",
            h("title", self.title),
            *self._grid(),
            *self.parts,
            viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
            role="img",
            aria_label=self.title,
        )
        entries = [h("span", h("i", cls=f"key {cls}"), text, " ") for cls, text in self.legend]
        return h("figure", h("figcaption", self.title), drawing, h("p", *entries, cls="legend"))

    def _grid(self) -> list[Markup]:
        left, bottom = self.at(self.x.low, self.y.low)
        right, top = self.at(self.x.high, self.y.high)
        found: list[Markup] = []
        for value in self.x.ticks():
            x = round(self.at(value, self.y.low)[0], 1)
            found.append(h("line", x1=x, x2=x, y1=bottom, y2=top, cls="grid"))
            found.append(h("text", short(value), x=x, y=bottom + 15, text_anchor="middle"))
        for value in self.y.ticks():
            y = round(self.at(self.x.low, value)[1], 1)
            found.append(h("line", x1=left, x2=right, y1=y, y2=y, cls="grid"))
            found.append(h("text", short(value), x=left - 6, y=y + 4, text_anchor="end"))
        middle = (top + bottom) / 2
        turned = f"rotate(-90 12 {middle:g})"
        found.append(h("text", self.x.label, x=(left + right) / 2, y=HEIGHT - 5, text_anchor="middle"))
        found.append(h("text", self.y.label, x=12, y=middle, text_anchor="middle", transform=turned))
        return found


def _level(corners: Sequence[XY], i: int) -> bool:
    return corners[i - 1][1] == corners[i][1] == corners[i + 1][1]


def _said(name: str, says: str, **attributes: str | float) -> Markup:
    return h(name, *([h("title", says)] if says else []), **attributes)


def bar(parts: Sequence[tuple[str, float]], form: str = "{:.1f} s") -> Markup:
    """Shares of a whole as one bar, with a legend."""
    total = math.fsum(value for _, value in parts)
    if total <= 0:
        return h("p", "nothing was noted", cls="quiet")
    drawn: list[Markup] = []
    left = 0.0
    for n, (name, value) in enumerate(parts):
        width = WIDTH * value / total
        says = f"{name}: {form.format(value)}, {value / total:.1%}"
        drawn.append(
            _said("rect", says, x=round(left, 2), y=0, width=round(width, 2), height=22, cls=f"b c{n % 8}")
        )
        left += width
    entries = [
        h("span", h("i", cls=f"key c{n % 8}"), f"{name} {form.format(value)} ({value / total:.1%})", " ")
        for n, (name, value) in enumerate(parts)
    ]
    drawing = h("svg", join(drawn), viewBox=f"0 0 {WIDTH:g} 22", role="img", aria_label="shares", cls="bar")
    return h("figure", drawing, h("p", *entries, cls="legend"))
