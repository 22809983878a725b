"""Write schedules into the text of a program."""

from __future__ import annotations

from collections.abc import Sequence

from mucc.database.records import Choice
from mucc.diagnostics.core import Source
from mucc.measure.tune.plans import Kernel


def with_schedules(source: Source, found: Sequence[tuple[Kernel, Choice]]) -> str:
    """Return the text with new schedules for some kernels, in place of those that it had for their target.

    The first of a kernel's schedules is replaced, further ones go; where it had none, the new one follows
    the kernel. All else stays as it is.
    """
    from mucc import frontend

    program, sink = frontend.parse(source)
    sink.raise_if_errors()
    edits: list[tuple[int, int, str]] = []
    for kernel, choice in found:
        text = kernel.schedules(choice).rstrip("\n")
        old = [
            s.span
            for s in program.schedules
            if (s.kernel.text, s.target.text) == (kernel.name, kernel.target)
        ]
        if old:
            edits.append((old[0].start, old[0].end, text))
            edits += [(span.start, span.end, "") for span in old[1:]]
        else:
            end = next(k.span.end for k in program.kernels if k.name.text == kernel.name)
            edits.append((end, end, f"\n\n{text}"))
    new = source.text
    for start, end, text in sorted(edits, reverse=True):
        new = new[:start] + text + new[end:]
    return new if new.endswith("\n") else f"{new}\n"
