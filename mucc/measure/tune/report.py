"""Report the results of tuning, as a table and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mucc.database.records import Choice, Record, choice_text
from mucc.diagnostics.core import Diagnostic
from mucc.measure.tune.folder import Result
from mucc.measure.tune.plans import Kernel, compact

TOP = 8
"""Candidates that a table lists for each size."""


def table(result: Result, top: int = TOP) -> str:
    """Return the best candidates at one size as a table: times, estimates, fractions of the bound."""
    kernel, size = result.kernel, result.size
    bound = f", bound {size.bound_us:.1f} µs" if size.bound_us else ""
    lines = [f"{kernel.name} at {size.text or 'its dims'} on {result.card}{bound}"]
    rows = [("µs", "TFLOP/s", "of bound", "model µs", "schedule")]
    estimates = _estimates(result)
    for record in _ordered(result.records)[:top]:
        rate = f"{size.flops / record.time_us * 1e-6:.1f}" if size.flops else "-"
        share = f"{size.bound_us / record.time_us:.0%}" if size.bound_us else "-"
        estimate = estimates.get(choice_text(record.choice))
        model = f"{estimate:.1f}" if estimate else "-"
        rows.append((f"{record.time_us:.1f}", rate, share, model, _schedules(record.choice)))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  " + "  ".join((*cells, row[4])))
    good = sum(r.is_good for r in result.records)
    if good > top:
        lines.append(f"  and {good - top} more")
    lines += [f"  {count} failed: {reason}" for reason, count in _failures(result.records).items()]
    if result.first is not None and result.best is not None and result.first.is_good:
        gain = result.first.time_us / result.best.time_us
        lines.append(f"  the model's choice takes {result.first.time_us:.1f} µs: {gain:.2f}x the best")
    return "\n".join(lines) + "\n"


def schedules_text(kernel: Kernel, choice: Choice, found: Sequence[Result]) -> str:
    """Return the best choice for all sizes as source; better choices for single sizes are comments."""
    notes = [
        f"// fastest at {r.size.text}, {r.best.time_us:.1f} µs: {_schedules(r.best.choice)}\n"
        for r in found
        if r.best is not None and choice_text(r.best.choice) != choice_text(choice)
    ]
    return "".join(notes) + kernel.schedules(choice)


def as_json(result: Result) -> dict[str, Any]:
    """All that is known of a kernel at one size."""
    size, estimates = result.size, _estimates(result)
    return {
        "dims": dict(size.dims),
        "card": result.card,
        "bound_us": size.bound_us,
        "flops": size.flops,
        "best": _candidate(result.best, estimates) if result.best else None,
        "model_choice": _candidate(result.first, estimates) if result.first else None,
        "candidates": [_candidate(r, estimates) for r in (*_ordered(result.records), *_bad(result.records))],
    }


def no_result(result: Result) -> Diagnostic | None:
    """Return the error for a size at which nothing was measured."""
    if result.best is not None:
        return None
    message = f"no schedule of '{result.kernel.name}' was measured at {result.size.text or 'its dims'}"
    total = len(result.records)
    notes = tuple(f"{n} of {total} candidates: {reason}" for reason, n in _failures(result.records).items())
    return Diagnostic("MU5309", message, notes=notes)


def not_used(
    kernel: Kernel, choice: Choice, pins: Mapping[str, Mapping[str, str]], file: str
) -> Diagnostic | None:
    """Return the warning that the file's own schedule keeps the result from being used."""
    from mucc.diagnostics.core import Severity

    differing = [
        f"{name} = {text} for {kernel.name if len(kernel.bodies) == 1 else f'{kernel.name}.{stage}'}"
        for stage, pinned in pins.items()
        for name, text in pinned.items()
        if choice.get(stage, {}).get(name) != text
    ]
    if not differing:
        return None
    return Diagnostic(
        "MU5313",
        f"the schedule in {file} pins other settings than those found, and pinned settings hold",
        severity=Severity.WARNING,
        notes=(f"pinned: {', '.join(differing)}",),
        helps=("`--write` puts the best schedule into the file",),
    )


def _estimates(result: Result) -> dict[str, float | None]:
    i = result.kernel.sizes.index(result.size)
    return {choice_text(c.choice): c.estimates[i] for c in result.kernel.candidates}


def _ordered(records: Iterable[Record]) -> list[Record]:
    """Sort valid records; times of the last round rank first, as clocks differ between rounds."""
    return sorted((r for r in records if r.is_good), key=lambda r: (not r.run.final, r.time_us))


def _bad(records: Iterable[Record]) -> list[Record]:
    return [r for r in records if not r.is_good]


def _failures(records: Iterable[Record]) -> Counter[str]:
    """How many failed for each reason."""
    return Counter(f"{r.run.status.value}: {r.run.reason}" for r in _bad(records))


def _schedules(choice: Choice) -> str:
    if len(choice) == 1:
        return compact(next(iter(choice.values())))
    return "; ".join(f"{stage}: {compact(settings)}" for stage, settings in choice.items())


def _candidate(record: Record, estimates: Mapping[str, float | None]) -> dict[str, Any]:
    return {
        "schedule": {stage: dict(settings) for stage, settings in record.choice.items()},
        "estimate_us": estimates.get(choice_text(record.choice)),
        **record.run._asdict(),
    }


def listing(records: Sequence[Record]) -> str:
    """Describe a database: for each kernel, card and size the count of measurements, and the best."""
    from mucc.database.records import best
    from mucc.files.json_text import canonical

    groups: dict[tuple[str, ...], list[Record]] = {}
    for r in records:
        if r.card:
            groups.setdefault((r.name, r.kernel, r.target, r.card, canonical(dict(r.dims))), []).append(r)
    rows = [("kernel", "dims", "card", "measured", "best µs", "date", "schedule")]
    for group in groups.values():
        found = best(group)
        first = group[0]
        dims = ",".join(f"{n}={v}" for n, v in first.dims.items())
        time = f"{found.time_us:.1f}" if found else "-"
        schedule = _schedules(found.choice) if found else "-"
        date = max(r.date for r in group)[:10]
        rows.append((first.name, dims, first.card, str(len(group)), time, date, schedule))
    if len(rows) == 1:
        return "nothing was measured yet\n"
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    lines = ("  ".join((*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[6])) for row in rows)
    return "\n".join(line.rstrip() for line in lines) + "\n"
