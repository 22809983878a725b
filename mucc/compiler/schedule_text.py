"""Print chosen schedules as source (`--emit=schedule`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from mucc.dialects.mu.settings import SCHEDULER
from mucc.library.entries import guards_text

if TYPE_CHECKING:
    from mucc.dialects.cutlass.ops import ProgramOp


def schedule_text(
    programs: Sequence[ProgramOp], measured: Mapping[tuple[str, str], str] = MappingProxyType({})
) -> str:
    """Print the chosen schedules as source, with a comment on each that was `measured`."""
    from mucc.kernels.registry import kind_of

    blocks: list[str] = []
    for program in programs:
        scheduled = [k for k in program.kernels if kind_of(k).schedule(k)]
        for kernel in scheduled:
            name, stage = program.kernel_name, kernel.stage.data
            origin = measured.get((name, stage)) if not program.boxes else None
            kind = kind_of(kernel)
            schedule = kind.schedule(kernel)
            settings = [s for s in kind.settings if not s.is_unset(s.of(schedule))]
            width = max(len(SCHEDULER.name), *(len(s.name) for s in settings))
            lines = [
                *([f"// measured: {origin}"] if origin else []),
                f"schedule {name if len(scheduled) == 1 else f'{name}.{stage}'} for {program.target.data} {{",
                *(f"    {s.name:<{width}} = {s.text(schedule[s.name])}" for s in settings),
                "}",
            ]
            if program.boxes:
                # A kernel has one schedule in the source, that of its last entry.
                title = f"{name}, {guards_text(program.boxes)}:"
                lines = [f"// {line}" for line in (title, *lines)]
            blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)
