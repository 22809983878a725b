"""Another way of computing for inputs that look a certain way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mucc.agent.audit.findings import Finding, minor, reject
from mucc.agent.audit.observations import Call, Observations
from mucc.agent.audit.repeats import SAME, differs


def _by_length(line: str) -> tuple[int, str]:
    """Sort numbers as numbers, whatever else a candidate's process says."""
    return len(line), line


def _by_values(calls: Sequence[Call]) -> bool:
    """Whether all calls with one scaling take another path than those on stated inputs."""
    stated = next(frozenset(c.lines) for c in calls if c.case.is_stated)
    scaled: dict[float, list[frozenset[str]]] = {}
    for c in calls:
        if not c.case.is_stated:
            scaled.setdefault(c.case.scale, []).append(frozenset(c.lines))
    return any(differs(paths, stated) for paths in scaled.values())


class InputShortcut:
    """Right for inputs as the problem draws them and wrong for others, or another path for others."""

    name = "input_shortcut"
    looks_at = "results and paths of hidden scalings against those of stated inputs"

    def check(self, seen: Observations) -> Iterator[Finding]:
        stated = [c for c in seen.compared if c.case.is_stated]
        hidden = [c for c in seen.compared if not c.case.is_stated and not c.case.probe]
        wrong = [c.case.name for c in hidden if not c.comparison.correct and c.comparison.finite]
        if wrong and stated and all(c.comparison.correct for c in stated):
            yield reject(
                self.name,
                f"right for the inputs as the problem draws them, wrong for {', '.join(wrong)}",
                cases=wrong,
            )
        yield from self._paths(
            [c for c in seen.calls[1:] if not c.case.probe and not c.case.name.startswith(SAME)]
        )

    def _paths(self, calls: list[Call]) -> Iterator[Finding]:
        """Yield a finding if calls after the first take different paths; the first may set things up."""
        paths = {c.lines for c in calls}
        if len(paths) < 2:
            return
        common = frozenset(n for n in calls[0].lines if all(n in path for path in paths))
        lines = sorted({n for path in paths for n in path} - common, key=_by_length)
        by_case = {c.case.name: sorted(set(c.lines) - common, key=_by_length) for c in calls}
        again = {c.lines for c in calls if c.case.is_stated}
        said = f"lines {', '.join(map(str, lines))} of the file ran for some inputs only"
        if (len(again) == 1 and _by_values(calls)) or any(not c.comparison.correct for c in calls):
            yield reject(self.name, f"{said}, depending on their values", lines=by_case)
        else:
            yield minor(self.name, said, lines=by_case)
