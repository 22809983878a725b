"""Child processes: what they print, and their end with all that they started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.api import names_from

if TYPE_CHECKING:
    from mucc.process.charge import PROCESSORS, Charge, scheduled, waited_for_others
    from mucc.process.output import Printed, notes, plain
    from mucc.process.pausing import descendants, parent, pause, resume
    from mucc.process.reaper import forget, temporary_folder, watch
    from mucc.process.registers import Code, Place, memory, working
    from mucc.process.symbols import Symbols
    from mucc.process.tree import End, Family, children, end_strays

__all__ = [
    "PROCESSORS",
    "Charge",
    "Code",
    "End",
    "Family",
    "Place",
    "Printed",
    "Symbols",
    "children",
    "descendants",
    "end_strays",
    "forget",
    "memory",
    "notes",
    "parent",
    "pause",
    "plain",
    "resume",
    "scheduled",
    "temporary_folder",
    "waited_for_others",
    "watch",
    "working",
]

__getattr__ = names_from(
    __name__,
    {
        "mucc.process.charge": ("PROCESSORS", "Charge", "scheduled", "waited_for_others"),
        "mucc.process.output": ("Printed", "notes", "plain"),
        "mucc.process.pausing": ("descendants", "parent", "pause", "resume"),
        "mucc.process.reaper": ("forget", "temporary_folder", "watch"),
        "mucc.process.registers": ("Code", "Place", "memory", "working"),
        "mucc.process.symbols": ("Symbols",),
        "mucc.process.tree": ("End", "Family", "children", "end_strays"),
    },
)
